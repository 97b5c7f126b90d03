#!/bin/sh
# SPDX-License-Identifier: MIT
# mi-heapview: what each command makes of snapshots whose contents are known (make_snapshot.c), well-formed JSON and SVG, and
# one clear error for what is cut, damaged, or no snapshot at all.
set -u
coarse=9 # a short run cuts files after every ninth byte
[ "${MI_TEST_SIZE:-}" = long ] && coarse=1
view=$MI_TEST_BUILDDIR/mi-heapview
make=$MI_TEST_BUILDDIR/tests/misc/make_snapshot
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
cd "$tmp" || exit 99
status=0
fail() { echo "FAIL: $*"; status=1; }
for kind in full later plain tiny bare gib swapped core; do "$make" $kind $kind || exit 99; done

# run STATUS ARGUMENT...: output to ./out, errors to ./err
run() {
  want=$1
  shift
  "$view" "$@" >out 2>err
  got=$?
  [ $got = "$want" ] && { [ "$want" != 0 ] || [ ! -s err ]; } && return
  head -n 20 out err
  fail "status $got, not $want: $*"
}
# has LINE: a line of the output, where runs of blanks are one
has() { tr -s ' ' <out | sed 's/^ //;s/ $//' | grep -q -x -F -e "$1" || { cat out; fail "$what: no line '$1'"; }; }
# row N LINE: the line with that number, likewise
row() {
  found=$(tr -s ' ' <out | sed -n "$1{s/^ //;s/ \$//;p;}")
  [ "$found" = "$2" ] || fail "$what: line $1 is '$found', not '$2'"
}
lines() { [ "$(wc -l <out)" -eq "$1" ] || fail "$what: $(wc -l <out) lines, not $1"; }
# refuse FILE WHY: one line on standard error, nothing on standard output, status 1; WHY is a part of the line
refuse() {
  run 1 summary "$1"
  if [ -s out ] || [ "$(wc -l <err)" -ne 1 ] || ! grep -q -F "mi-heapview: $1: " err || ! grep -q -F -e "$2" err; then
    fail "$1 ($2): $(cat err)"
  fi
}

# ---- help, usage ----
run 0 --help
grep -q '^Usage: mi-heapview' out || fail "--help prints no usage"
for command in summary sizes diff frag arenas pages blocks peek json map; do
  grep -q "^  $command " out || fail "--help does not name $command"
done
run 0 --version
grep -q -x 'mi-heapview (mimalloc) 3\.5\.2' out || fail "--version"
run 2
run 2 summary
run 2 summary full later
run 2 diff full
run 2 no-such-command full
run 2 summary --no-such-option full
run 2 summary --top
for n in 0 x -1 1x '' 99999999999999999999999; do run 2 pages --top "$n" full; done
run 2 pages --by-heap full
run 2 pages -o x full
run 2 peek full core 0xyz
[ "$(wc -l <err)" -eq 2 ] && grep -q '^mi-heapview: not a hexadecimal address: 0xyz$' err || fail "an address: $(cat err)"

# ---- summary ----
what=summary
run 0 summary full
for line in 'arenas 2' 'address-space 12582912' 'slices 192' 'slices-of-pages 78' 'slices-other 1' 'slices-free 10' \
  'slices-to-purge 16' 'slices-purged 79' 'slices-outside 8' 'pages 7' 'pages-small 2' 'pages-medium 1' 'pages-large 1' \
  'pages-huge 3' 'pages-own-mapping 2' 'pages-abandoned 1' 'pages-full 5' 'further-heaps 1' 'used-blocks 1107' \
  'used 7655616' 'committed 7790528' 'waste 134912' 'holes 262144' 'waste-percent 1.7' 'written-by 0xa1'; do
  has "$line"
done
run 0 summary --human full
has 'committed 7.4 MiB'
has 'waste 131.8 KiB'
run 0 summary --by-heap full
has '3 41 6325376 6456448 131072 262144 7'
has '4 1066 1330240 1334080 3840 0 0'
run 0 summary plain
has 'used-blocks 1107'
run 0 summary bare
has 'pages 0'
run 0 summary gib
has 'pages-small 16000'

# ---- sizes ----
what=sizes
run 0 sizes full
lines 8
row 2 '524288 1 8 4194304 4194304 0 0'
row 3 '2000000 1 1 2000000 2000000 0 0'
row 4 '1000000 1 1 1000000 1000000 0 0'
row 5 '4096 1 32 131072 262144 131072 262144'
row 6 '262144 1 1 262144 262144 0 0'
row 7 '64 2 1064 68096 71936 3840 0'
row 8 'total 7 1107 7655616 7790528 134912 262144'
run 0 sizes --top 2 full
lines 4
row 4 'total 7 1107 7655616 7790528 134912 262144'
run 0 sizes --by-tid full
lines 9
has '64 1 1024 65536 65536 0 0 0xa2'
has '64 1 40 2560 6400 3840 0 0xa1'
run 0 --by-heap sizes full --by-tid
has '4096 1 32 131072 262144 131072 262144 7 0xa1'

# ---- diff ----
what=diff
run 0 diff full later
lines 4
row 2 '64 71936 6400 -65536 -1 -1024'
row 3 '128 0 65536 +65536 +1 +10'
row 4 'total 7790528 7790528 0 0 -1014'
run 0 diff full full
lines 2
run 0 diff bare full
row 2 '524288 0 4194304 +4194304 +1 +8'
run 1 diff full swapped

# ---- frag, pages, arenas ----
what=frag
run 0 frag full
lines 8
row 2 '0x10080000 4096 128 128 32 262144 131072 262144 medium 7 ---b 0xa1'
row 3 '0x10010000 64 1024 100 40 6400 3840 0 small 0 ---b 0xa1'
run 0 frag --by-tid --top 1 full
lines 7
row 2 'thread 0xa1 pages 3 committed 1268544 waste 134912'
row 3 '0x10080000 4096 128 128 32 262144 131072 262144 medium 7 ---b 0xa1'
what=pages
run 0 pages full
lines 8
row 5 '0x10100000 524288 8 8 8 4194304 0 0 large 7 -afb 0x0'
row 7 '0x30001000 1000000 1 1 1 1000000 0 0 huge 0 m-f- 0xa1'
what=arenas
run 0 arenas full
lines 3
row 2 '0 0x10000000 8388608 128 78 1 10 16 15 8 5 - --m-'
row 3 '1 0x20000000 4194304 64 0 0 0 0 64 0 0 1 hx-c'

# ---- blocks ----
what=blocks
run 0 blocks full
lines 1107
row 1 '0x10010000 64'
row 2 '0x10010080 64'
row 40 '0x10011380 64'
has '0x1009f000 4096'
has '0x30001000 1000000'
run 0 blocks --top 3 full
lines 3
run 1 blocks plain
grep -q 'without maps' err || fail "blocks without maps: $(cat err)"

# ---- peek ----
what=peek
run 0 peek full core 0x10010007
has 'block 0x10010000, 64 bytes, live'
has '0x0000000010010000 74 68 65 20 66 69 72 73 74 20 62 6c 6f 63 6b 00 |the first block.|'
lines 6
run 0 peek full core 10010079
has 'block 0x10010040, 64 bytes, free'
run 0 peek plain core 0x10010007
has 'block 0x10010000, 64 bytes, not known (the page has no map)'
run 0 peek full core 0x10080000
lines 253
row 252 '0x0000000010080f90 4d 4d 4d 4d 4d 4d 4d 4d 4d 4d 4d 4d 4d 4d 4d 4d |MMMMMMMMMMMMMMMM|'
row 253 '0x0000000010080fa0 96 bytes are not in the core'
run 0 peek --top 2 full core 0x10080000
lines 4
told() { [ "$(wc -l <err)" -eq 1 ] && grep -q -x -F "mi-heapview: $1" err || fail "peek tells '$(cat err)', not '$1'"; }
run 1 peek full core 0x10010085
told 'core: the core file lacks the block'
run 1 peek full core 0x10030000
told 'full: 0x10030000 is in slice 3 of arena 0, which is free, and has been purged'
run 1 peek full core 0x10540000
told 'full: 0x10540000 is in slice 84 of arena 0, which is free, and to be purged'
run 1 peek full core 0x30000fff
told 'full: 0x30000fff is in no block of the page at 0x30000000'
run 1 peek full core 0x50000000
told 'full: 0x50000000 is in no arena and in no page'
run 1 peek full full 0x10010000
told 'full: not an ELF core file of this kind of machine'
run 1 peek full missing 0x10010000
head -c 100 core >cut
run 1 peek full cut 0x10010000
told 'cut: truncated core file'
head -c 4000 core >cut
run 0 peek full cut 0x10080000
has '0x0000000010080bb8 1096 bytes are not in the core'
run 1 peek full cut 0x10010000
told 'cut: the core file lacks the block'

# ---- names of threads ----
what=names
printf '%s' '{"made": [1, {"by": "}"}], "threads": {"0xa1": "a <b> & \"c\" \u00e9\u001b\ud83d\ude00", "0xA2": "w"}, "x": 1}' \
  >full.meta.json
run 0 pages full
has '0x10020000 64 1024 1024 1024 65536 0 0 small 0 --fb 0xa2 w'
has "$(printf '0x10010000 64 1024 100 40 6400 3840 0 small 0 ---b 0xa1 a <b> & "c" \303\251\357\277\275\360\237\230\200')"
cp full.meta.json named.json
n=0
size=$(($(wc -c <named.json)))
while [ $n -lt $size ]; do # what is cut is as good as none
  head -c $n named.json >full.meta.json
  "$view" arenas full >out 2>&1 || fail "names cut after $n bytes: $(cat out)"
  n=$((n + 3 * coarse))
done
cp named.json full.meta.json

# ---- JSON, SVG ----
run 0 json bare
cp out bare.json
run 0 json plain
cp out plain.json
run 0 json full
cp out full.json
if command -v python3 >/dev/null 2>&1; then
  PYTHONIOENCODING=utf-8 python3 - <<'PY' || fail "json"
import json
for name in 'bare', 'plain', 'full':
    with open(name + '.json', encoding='utf-8') as f:
        s = json.load(f)
    if name == 'bare':
        assert s['pages'] == [] and s['arenas'] == [] and s['heaps'] == []
        continue
    assert sum(p['used'] for p in s['pages']) == 1107
    assert sum(p['committed'] for p in s['pages']) == 7790528
    assert sum(p['waste'] for p in s['pages']) == 134912
    counts = s['arenas'][0]['slice_counts']
    assert counts == {'of_pages': 78, 'other': 1, 'free': 10, 'to_purge': 16, 'purged': 15, 'outside': 8}
    assert s['arenas'][1]['numa_node'] == 1 and s['arenas'][0]['numa_node'] is None
    assert s['heaps'] == [{'seq': 7, 'arena': 0, 'address': '0x10000100'}]
    assert s['maps'] == (name == 'full')
    if name == 'full':
        assert bytes.fromhex(s['pages'][0]['not_live'])[:11] == b'\xaa' * 10 + b'\xff'
        assert bytes.fromhex(s['arenas'][0]['free']).count(0) == 10, s['arenas'][0]['free']
        assert s['threads']['0xa1'] == 'a <b> & "c" \u00e9\ufffd\U0001f600', s['threads']
PY
else
  echo "json: skipped, no python3"
fi

for kind in bare full gib; do
  run 0 map $kind -o $kind.svg
  [ -s out ] && fail "map -o prints something"
  run 0 map $kind
  cmp -s out $kind.svg || fail "map $kind: standard output and -o differ"
  [ "$(tail -n 1 $kind.svg)" = '</svg>' ] || fail "map $kind: no end"
  command -v xmllint >/dev/null 2>&1 && { xmllint --noout $kind.svg || fail "map $kind: xmllint"; }
done
# A group with a title for each page, and for each run of other slices.
[ "$(grep -c '<title>.* page 0x' full.svg)" -eq 5 ] || fail "map: titles of pages"
[ "$(grep -c '<title>slices ' full.svg)" -eq 7 ] || fail "map: titles of runs"
[ "$(grep -c '<title>small page 0x' gib.svg)" -eq 16000 ] || fail "map: titles of a GiB"
[ "$(wc -c <gib.svg)" -le 8000000 ] || fail "map: $(wc -c <gib.svg) bytes for a GiB"
for word in 'slices 84 to 99: to be purged' 'slices 110 to 119: purged' 'slices 100 to 109: free, memory kept' \
  '32 of 128 blocks of 4.0 KiB live: 128.0 KiB' 'committed 256.0 KiB, holes 256.0 KiB' \
  'thread 0xa1 a &lt;b&gt; &amp; &quot;c'; do
  grep -q -F "$word" full.svg || fail "map: no '$word'"
done
if command -v python3 >/dev/null 2>&1; then
  python3 - <<'PY' || fail "map"
import xml.dom.minidom
svg = xml.dom.minidom.parse('full.svg').documentElement
for group in svg.getElementsByTagName('g'):
    title = group.getElementsByTagName('title')
    if not title or title[0].parentNode is not group:
        continue
    shapes = group.getElementsByTagName('rect')
    classes = [r.getAttribute('class') for r in shapes]
    text = title[0].firstChild.data
    area = sum(float(r.getAttribute('width')) * float(r.getAttribute('height')) for r in shapes)
    if text.startswith('medium'): # a quarter live, a quarter waste, half in holes; 8 slices of 9 less the line behind them
        assert classes == ['u1', 'w1', 'hole'], classes
        assert [float(r.getAttribute('height')) for r in shapes] == [2, 2, 4]
        assert shapes[0].getAttribute('x') == '72' and area == 71 * 8
    if text.startswith('large'):
        assert classes == ['u2'] and area == (64 * 9 - 1) * 8
    if text.startswith('slices 84'):
        assert classes == ['s3'] and area == (16 * 9 - 1) * 8
PY
fi
run 1 map full -o no/such/folder
grep -q '^mi-heapview: no/such/folder: ' err || fail "map: $(cat err)"

# ---- what cannot be written ----
if [ -c /dev/full ]; then
  for command in --help 'summary full' 'pages gib' 'json full' 'map full' 'map full -o /dev/full'; do
    "$view" $command >/dev/full 2>err
    got=$?
    [ $got = 1 ] && [ "$(wc -l <err)" -eq 1 ] || fail "$command to a full disk: status $got, $(cat err)"
  done
else
  echo "/dev/full: skipped, not there"
fi
grep -q "$(printf '\033')" out && fail "colours where there is no terminal"

# ---- what the library writes: with the totals of its statistics, and under load ----
writer=$MI_TEST_BUILDDIR/tests/api/snapshot
if [ -x "$writer" ]; then
  totals=$("$writer" held held)
  got=$?
  if [ $got -ne 77 ]; then
    [ $got -eq 0 ] || fail "the writer: status $got"
    run 0 summary held
    said="$(sed -n 's/^pages  *//p' out) $(sed -n 's/^used  *//p' out)"
    [ "$said" = "$totals" ] || fail "pages and live bytes are $said, by the statistics $totals"
    "$writer" load loaded || fail "the writer under load: status $?"
    for file in loaded.?; do
      "$view" summary "$file" >out 2>err || fail "$file, written under load: $(cat err)"
    done
  fi
fi

# ---- what is no snapshot ----
: >empty
refuse empty 'empty file'
refuse missing 'No such file'
refuse . ''
echo 'something else altogether, but long enough to be one' >text
refuse text 'not a heap snapshot'
refuse core 'not a heap snapshot'
refuse swapped 'byte order'
[ -c /dev/zero ] && refuse /dev/zero 'not a heap snapshot'
n=1
size=$(($(wc -c <tiny)))
while [ $n -lt $size ]; do
  head -c $n tiny >cut
  message=$("$view" summary cut 2>&1)
  [ "$?: $message" = "1: mi-heapview: cut: truncated: it ends after $n bytes" ] || fail "cut after $n bytes: $message"
  n=$((n + coarse))
done
run 0 summary tiny
cp tiny long
printf x >>long
refuse long 'something follows the end'

# patch OFFSET BYTES WHY
ones=ffffffff
patch() {
  "$make" patch tiny "$1" "$2" damaged || exit 99
  refuse damaged "$3"
}
# A limit on memory: no number of the file makes the tool allocate much. Sanitizers need more.
[ -n "$MI_TEST_SANITIZE" ] || ulimit -v 262144 2>/dev/null
patch 4 $ones 'format version 4294967295, not 1'
patch 8 03030303 'pointers have 50529027 bytes there'
patch 12 $ones 'slices have 4294967295 bytes there'
patch 16 $ones 'a flag'
patch 20 $ones 'a flag'
patch 40 $ones 'an arena was expected'
patch 44 $ones 'an arena was expected'
patch 52 $ones$ones 'an arena whose sizes'
patch 60 $ones$ones 'an arena whose sizes'
patch 68 00000000 'an arena whose sizes'
patch 68 $ones 'an arena whose sizes'
patch 72 $ones 'an arena whose sizes'
patch 80 02 'an arena with a flag'
patch 84 $ones 'a bitmap'
patch 84 00000000 'a bitmap'
patch 88 $ones 'a bitmap'
patch 132 $ones 'a page section was expected'
patch 136 $ones$ones 'a page'
patch 144 0000000000000000 'a page'
patch 144 $ones$ones 'a page'
patch 152 0000000000000000 'a page without blocks'
patch 152 $ones$ones 'a page that ends behind the address space'
patch 160 00000000 'a page without blocks'
patch 160 $ones 'a page'
patch 164 $ones 'a page with more blocks'
patch 168 $ones 'a page with more blocks'
patch 172 $ones$ones 'a page with more memory'
patch 196 $ones 'a page that is not of its arena'
patch 200 $ones 'a page that is not of its arena'
patch 204 $ones 'a page that is not of its arena'
patch 204 00000000 'a page whose slices'
patch 208 01 'a page in the wrong section'
patch 209 04 'a page of an unknown kind'
patch 210 02 'a page with a flag'
patch 216 $ones 'a map of the wrong size'
patch 229 $ones 'a page section was expected'
patch 241 $ones 'a heap or the end was expected'
patch 277 $ones 'a heap or the end was expected'
patch 281 $ones$ones 'the number of pages'

# By chance: every command is done with it or refuses it.
try() { # ARGUMENT...
  timeout 60 "$view" "$@" >out 2>err
  got=$?
  [ $got -le 1 ] || { cat err; fail "status $got with a file of seed $seed: $*"; }
}
rounds=8
[ $coarse = 1 ] && rounds=400
seed=0
while [ $seed -lt $rounds ]; do
  "$make" mutate full $seed mutant || exit 99
  "$view" arenas mutant >out 2>err
  case $? in
  0)
    try summary mutant
    try frag --by-tid mutant
    try blocks --top 10000 mutant
    try json mutant
    try map mutant
    try peek --top 100 mutant core 0x10010040
    ;;
  1) ;;
  *) fail "seed $seed: $(cat err)" ;;
  esac
  "$make" mutate core $seed mutant || exit 99
  try peek full mutant 0x10080000
  seed=$((seed + 1))
done
exit $status
