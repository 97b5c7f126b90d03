#!/bin/sh
# SPDX-License-Identifier: MIT
# G04 silent-by-default: preload under 30 usual commands, also in a container-like setup (no /proc, no /sys), with RLIMIT_AS
# 512 MiB, with refused huge pages. Standard error and standard output are byte-identical to no preload.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"

seq 1 3000 >numbers
printf 'a b c\nd e f\na b c\n' >words
printf 'int main(void) { return 0; }\n' >empty.c
mkdir folder && touch -d 2001-02-03 folder/one folder/two numbers words

# One command a line; what is not installed is left out. Errors belong to them.
cat >commands <<'END'
true
echo hello
printf %s\n a b
cat numbers
ls -l folder
ls no-such-file
head -5 numbers
wc numbers words
cut -c 2 numbers
uniq -c words
tr a b
sort -r numbers
sort -n numbers words
join words words
sed -n s/1/x/p numbers
awk {s+=$1}END{print(s)} numbers
grep -c 7 numbers
grep nothing words
find folder -type f
xargs -n 900 echo
tar -cf - folder
gzip -9 -n -c numbers
xz -T2 -c numbers
sha256sum numbers words
od -c words
diff words numbers
date -u -d @0
id -u
env -i /bin/echo empty
timeout 5 true
readelf -h /bin/true
nm -D /bin/true
perl -e print(1..9)
python3 -S -c print(list(range(9)))
bash -c echo${BASH_VERSION:0:1}
dash -c exit
git --version
make --version
gcc --version
END

# all TEXT NTH PREFIX...: every command (in a short run every NTH), behind the prefix. What cannot be run at all fails both
# ways, and is not counted.
all() {
  what=$1
  nth=$2
  shift 2
  [ $long_run = no ] || nth=1
  count=0
  number=0
  input=numbers
  while read -r line; do
    set -f
    number=$((number + 1))
    [ $((number % nth)) -eq 0 ] || continue
    command -v "${line%% *}" >/dev/null 2>&1 || continue
    same "$what: $line" "$@" $line
    [ $code_with -ge 125 ] || count=$((count + 1))
  done <commands
  input=/dev/null
  echo "$what: $count commands"
  [ $count -ge $((24 / nth)) ] || fail "$what: too few commands can be run here"
}

all "as it is" 1
if command -v prlimit >/dev/null 2>&1; then all "with 512 MiB" 4 prlimit --as=536870912; fi
cat >empties <<'END'
mount -t tmpfs none /proc && mount -t tmpfs none /sys && exec "$@"
END
if unshare -Urm sh empties true 2>/dev/null; then
  all "without /proc and /sys" 3 unshare -Urm sh empties
elif unshare -m sh empties true 2>/dev/null; then
  all "without /proc and /sys" 3 unshare -m sh empties
else
  echo "namespaces are not to be had here: the run without /proc and /sys is left out"
fi
MIMALLOC_ALLOW_LARGE_OS_PAGES=1
MIMALLOC_RESERVE_HUGE_OS_PAGES=1
MIMALLOC_SHOW_ERRORS=0 # the default, but for a debug build, which tells that there were none
export MIMALLOC_ALLOW_LARGE_OS_PAGES MIMALLOC_RESERVE_HUGE_OS_PAGES MIMALLOC_SHOW_ERRORS
same "with refused huge pages" sort numbers words
same "with refused huge pages" ls -l folder
