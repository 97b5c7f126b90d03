#!/bin/sh
# SPDX-License-Identifier: MIT
# Alias pages: `man NAME` finds the page of a group by each name that its NAME section lists, and by
# each `.\" alias NAME SECTION` line in it.
#
#   aliases.sh list PAGE...            print one line for each: man3/mi_zalloc.3 man3/mi_malloc.3
#   aliases.sh install DIR PAGE...     write the alias pages below DIR
#   aliases.sh uninstall DIR PAGE...   remove them
set -eu

list_aliases() {
  awk '
    function emit(name, section) {
      if (name == own) return
      print "man" section "/" name "." section, "man" own_section "/" own "." own_section
    }
    FNR == 1 {
      in_name = 0
      own = FILENAME; sub(/.*\//, "", own)
      own_section = own; sub(/.*\./, "", own_section)
      own = substr(own, 1, length(own) - length(own_section) - 1)
    }
    $1 == ".\\\"" && $2 == "alias" { emit($3, $4) }
    /^\.SH/ { in_name = ($2 == "NAME"); next }
    in_name {
      line = $0
      sub(/ \\- .*/, "", line)
      gsub(/\\-/, "-", line)
      n = split(line, names, /, */)
      for (i = 1; i <= n; i++) emit(names[i], own_section)
    }
  ' "$@"
}

verb=$1
shift
case $verb in
list)
  list_aliases "$@"
  ;;
install)
  dir=$1
  shift
  mkdir -p "$dir/man1" "$dir/man3" "$dir/man7"
  list_aliases "$@" | {
    cd "$dir"
    while read -r alias page; do
      echo ".so $page" >"$alias"
      echo "$alias"
    done | xargs chmod 644
  }
  ;;
uninstall)
  dir=$1
  shift
  [ -d "$dir" ] || exit 0
  list_aliases "$@" | {
    cd "$dir"
    while read -r alias page; do echo "$alias"; done | xargs rm -f
  }
  ;;
*)
  echo "aliases.sh: list, install or uninstall" >&2
  exit 1
  ;;
esac
