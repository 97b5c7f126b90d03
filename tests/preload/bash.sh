#!/bin/sh
# SPDX-License-Identifier: MIT
# bash under LD_PRELOAD gives the same output as without.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
need bash
cat >load <<'END'
declare -A seen; list=()
for ((i = 0; i < 8000; i++)); do
  x=$(((i * 7919 + 13) % 10007)); seen[$((x % 500))]+="$x "; list+=("word$x")
done
echo "${#seen[@]} ${#list[@]} ${list[77]} ${seen[3]:0:60}"
text="${list[*]}"; echo "${#text} ${text//word/} " | cksum
f() { local a=("$@"); if ((${#a[@]} > 1)); then f "${a[@]:1}"; else echo "deep ${a[0]}"; fi; }
f {1..150}
for i in 1 2 3 4 5; do (echo "sub $i: $(echo $((i * i)))"; exit "$i"); echo $?; done
seq 1 2000 | while read -r line; do n=$((n + line)); [[ $line == 2000 ]] && echo "$n"; done
printf '%s\n' "${list[@]}" | sort | uniq -c | sort -rn | head -3
coproc cat; echo hello >&"${COPROC[1]}"; read -r back <&"${COPROC[0]}"; echo "$back"
trap 'echo bye' EXIT
nosuchcommand
exit 6
END
same "bash" bash load
ours "bash" bash -c 'a=(1 2 3); b=$(echo "${a[@]}"); c=${b// /}'
