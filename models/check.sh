#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks all models with spin: the model itself must pass, and each known-bad variant that it lists (lines " *   BAD_NAME ")
# must be rejected. Usage: check.sh [model.pml ...]. Exit status 77 where spin or a C compiler is missing.
dir=$(cd "$(dirname "$0")" && pwd) || exit 1
cc=${CC:-cc}
for tool in spin "${cc%% *}"; do
  command -v "$tool" >/dev/null 2>&1 || { echo "models: skipped, there is no $tool"; exit 77; }
done
[ $# -gt 0 ] || set -- "$dir"/*.pml
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# Succeeds where the model has no error in this variant; 2: it could not be searched as a whole.
search() {
  (
    cd "$work" && rm -f pan* &&
    spin -a ${2:+"-D$2"} "$1" >spin.log 2>&1 &&
    $cc -O0 -w -DSAFETY -DNOCLAIM -DVECTORSZ=2048 -o pan pan.c >cc.log 2>&1 || { cat spin.log cc.log; exit 2; }
    ./pan -m200000 >pan.log 2>&1
    grep -q 'max search depth too small\|out of memory' pan.log && exit 2
    grep -q 'errors: 0$' pan.log && exit 0
    grep -q 'errors: [1-9]' pan.log && exit 1
    exit 2
  )
}

failed=0
for model in "$@"; do
  model=$(cd "$(dirname "$model")" && pwd)/$(basename "$model")
  name=$(basename "$model")
  search "$model" ""
  case $? in
    0) echo "$name: holds, $(sed -n 's/^ *\([0-9][0-9]*\) states, stored.*/\1/p' "$work/pan.log") states" ;;
    1) echo "$name: FAILS"; grep assert "$work/pan.log"; failed=1 ;;
    *) echo "$name: could not be checked"; cat "$work"/*.log; failed=1 ;;
  esac
  for variant in $(sed -n 's/^ \*   \(BAD_[A-Z_0-9]*\) .*/\1/p' "$model"); do
    search "$model" "$variant"
    case $? in
      1) echo "$name: $variant is rejected" ;;
      0) echo "$name: $variant is NOT rejected"; failed=1 ;;
      *) echo "$name: $variant could not be checked"; failed=1 ;;
    esac
  done
done
exit $failed
