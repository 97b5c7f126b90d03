# SPDX-License-Identifier: MIT
# Makes mimalloc-options.7 from the table of options:
#   awk -f options.awk options.reserved option.def
# Each option gets a paragraph, and for each of its names a comment, of which man/aliases.sh makes
# an alias page.

function group(title, names,   n, list, i) {
  titles[++n_groups] = title
  n = split(names, list, " ")
  for (i = 1; i <= n; i++) { group_of[list[i]] = n_groups; grouped[++n_grouped] = list[i] }
}

BEGIN {
  group("Messages and statistics",
        "show_errors show_stats verbose max_errors max_warnings collect_merges_stats")
  group("Giving memory back",
        "purge_delay arena_purge_mult purge_decommits minimal_purge_size generic_collect " \
        "destroy_on_exit scavenger purge_holes purge_holes_min_interval purge_holes_full_every " \
        "purge_holes_large_floor purge_holes_large_floor_epochs purge_holes_eager_zero")
  group("Arenas",
        "arena_reserve arena_eager_commit arena_max_object_size disallow_arena_alloc " \
        "disallow_os_alloc reserve_os_memory")
  group("Huge pages and NUMA",
        "allow_thp allow_large_os_pages reserve_huge_os_pages reserve_huge_os_pages_at " \
        "use_numa_nodes arena_is_numa_local")
  group("Pages and threads",
        "page_full_retain page_max_candidates page_reclaim_on_free page_max_reclaim " \
        "page_cross_thread_max_reclaim page_commit_on_demand pagemap_commit max_vabits")
  group("Finding errors",
        "guarded_sample_rate guarded_sample_seed guarded_min guarded_max guarded_precise " \
        "snapshot_on_exit")
  group("Other", "os_tag retry_on_oom")

  unit_text["BOOL"] = "0 or 1"
  unit_text["LEVEL"] = "a level"
  unit_text["COUNT"] = "a count"
  unit_text["KIB"] = "KiB"
  unit_text["MS"] = "milliseconds"
  unit_text["NODE"] = "a NUMA node"
  unit_text["FACTOR"] = "a factor"
  unit_text["BYTES"] = "bytes"
  unit_text["ONE_IN"] = "one in so many"
  unit_text["NUMBER"] = "a number"
  unit_text["BITS"] = "bits"
  unit_text["EPOCHS"] = "epochs"

  older["allow_large_os_pages"] = "large_os_pages"
  older["arena_eager_commit"] = "eager_region_commit"
  older["purge_decommits"] = "reset_decommits"
  older["purge_delay"] = "reset_delay"
  older["disallow_os_alloc"] = "limit_os_alloc"
  older["deprecated_visit_abandoned"] = "visit_abandoned"
  older_variable["page_reclaim_on_free"] = "ABANDONED_RECLAIM_ON_FREE"
  older_variable["deprecated_purge_extend_delay"] = "DECOMMIT_EXTEND_DELAY"
}

FILENAME ~ /options\.reserved$/ {
  if ($0 !~ /^#/ && NF > 0) reserved[$1] = 1
  next
}

/^OPTION\(/ { entry = ""; inside = 1 }
inside {
  entry = entry " " $0
  if (/"\)$/) { inside = 0; read_entry(entry) }
}

# OPTION(number, name, default, unit, min, max, "meaning" "more of it")
function read_entry(text,   name, i, field) {
  sub(/^ *OPTION\(/, "", text)
  sub(/\)$/, "", text)
  for (i = 1; i <= 6; i++) {
    match(text, /^[^,]*,/)
    field[i] = substr(text, 1, RLENGTH - 1)
    gsub(/^ +| +$/, "", field[i])
    text = substr(text, RLENGTH + 1)
  }
  name = field[2]
  names[++n_options] = name
  number[name] = field[1]
  standard[name] = field[3]
  unit[name] = field[4]
  least[name] = field[5]
  most[name] = field[6]
  gsub(/\\"/, "\001", text)
  gsub(/" +"/, "", text)
  gsub(/^ *"|" *$/, "", text)
  gsub(/\001/, "\"", text)
  meaning[name] = text
}

function is_old(name) { return name ~ /^deprecated_/ }

# Text for troff: minus signs, and a line for each sentence. What the line of the default says is
# left out.
function roff(text) {
  sub(/ (Default 1|On) in a (build with --enable-debug|debug build)\./, "", text)
  gsub(/--/, "\\-\\-", text)
  if (text ~ /^-[0-9]/) text = "\\" text
  gsub(/ -1/, " \\-1", text)
  gsub(/\. /, ".\n", text)
  return text
}

function default_text(name,   d) {
  d = standard[name]
  if (d == "MI_DEBUG") return "0 (1 in a debug build)"
  if (d ~ /sizeof/) { sub(/.*\? */, "", d); sub(/ *:.*/, "", d) }
  if (d == 1048576 && unit[name] == "KIB") return d " (1 GiB)"
  if (d == 2097152 && unit[name] == "KIB") return d " (2 GiB)"
  if (d == 8192 && unit[name] == "KIB") return d " (8 MiB)"
  return roff(d)
}

function range_text(name,   a, b) {
  if (unit[name] == "BOOL") return ""
  a = least[name]; b = most[name]
  if (a == "ANY_MIN") return ""
  if (b !~ /^[0-9]+$/) return ", " roff(a) " or more"
  return ", " roff(a) " to " b
}

function variable(name) { return "MIMALLOC_" toupper(name) }

function alias(name) {
  print ".\\\" alias mi_option_" name " 3"
  print ".\\\" alias " variable(name) " 7"
}

function print_option(name) {
  alias(name)
  if (name in older) alias(older[name])
  if (name in older_variable) print ".\\\" alias MIMALLOC_" older_variable[name] " 7"
  print ".TP"
  print ".BR mi_option_" name " \", \" " variable(name)
  print roff(meaning[name])
  print "Default " default_text(name) "; " unit_text[unit[name]] range_text(name) "."
  if (name in older) {
    print "Older names:"
    print ".BR mi_option_" older[name] ","
    print ".BR " variable(older[name]) "."
  }
  if (name in older_variable) {
    print "Older name:"
    print ".BR MIMALLOC_" older_variable[name] "."
  }
  if (name in reserved) print "Reserved: no effect in this version."
}

function fail(text) { print "options.awk: " text > "/dev/stderr"; failed = 1 }

END {
  if (n_options == 0) fail("no options found")
  for (i = 1; i <= n_options; i++) {
    known[names[i]] = 1
    if (!is_old(names[i]) && !(names[i] in group_of)) fail(names[i] " is in no group")
    if (number[names[i]] != i - 1) fail(names[i] " is out of order")
    if (!is_old(names[i]) && !(unit[names[i]] in unit_text)) fail(names[i] " has an unknown unit")
  }
  for (name in group_of) if (!(name in known)) fail("no option " name)
  for (name in reserved) if (!(name in known)) fail("reserved: no option " name)
  if (failed) exit 1

  print ".\\\" SPDX-License-Identifier: MIT"
  print ".\\\" Made by options.awk from option.def: do not edit."
  print ".TH mimalloc\\-options 7 2026-11-30 \"mimalloc 3.5\" \"Miscellaneous Information Manual\""
  print ".SH NAME\nmimalloc\\-options \\- options of the mimalloc allocator"
  print ".SH LIBRARY\nmimalloc allocator\n.RI ( libmimalloc \", \" \\-lmimalloc )"
  print ".SH SYNOPSIS\n.nf"
  print ".BI \"MIMALLOC_\" NAME = value \" program arguments...\""
  print ".PP\n.B #include <mimalloc.h>\n.PP"
  print ".BI \"mi_option_set(mi_option_\" name \", \" value \");\"\n.fi"
  print ".SH DESCRIPTION\n.ad l"
  print "The library can be tuned by options."
  print "The defaults suit nearly every program."
  print ".PP"
  print "Each option has a variable of the environment, which is read once, when the process"
  print "starts,"
  print "and a constant for\n.BR mi_option_get (3)\nand\n.BR mi_option_set (3)."
  print "In a set-user-ID or set-group-ID program the environment is not read."
  print ".SS Values in the environment"
  print "An option of 0 or 1 takes, in any case of letters, 1, true, yes, on, or nothing for 1;"
  print "0, false, no, off for 0."
  print "Others take a decimal number as well, which may be negative where the option allows it."
  print ".PP"
  print "An option that counts KiB takes a number of bytes, which is rounded up to KiB,"
  print "or a number followed by K, M, G or T, each of which may be followed by iB or B:"
  print "1048576, 1M, 1MB and 1MiB are the same."
  print "A negative number is 0; too large a one is the largest allocation there can be."
  print "(By\n.BR mi_option_get (3)\nand\n.BR mi_option_set (3)\nthese options count KiB.)"
  print ".PP"
  print "A value that cannot be read, or lies out of the range of the option, leaves the default."
  print "There is one warning, where warnings are shown"
  print ".RB ( MIMALLOC_VERBOSE\nor\n.BR MIMALLOC_SHOW_ERRORS )."
  print "Names are in capitals only."
  for (g = 1; g <= n_groups; g++) {
    print ".SS " titles[g]
    for (i = 1; i <= n_grouped; i++) if (group_of[grouped[i]] == g) print_option(grouped[i])
  }
  print ".SS Without effect"
  print "These keep their numbers for programs that name them."
  for (i = 1; i <= n_options; i++) if (is_old(names[i])) {
    alias(names[i])
    if (names[i] in older) print ".\\\" alias mi_option_" older[names[i]] " 3"
    if (names[i] in older_variable) print ".\\\" alias MIMALLOC_" older_variable[names[i]] " 7"
    print ".TP\n.BR mi_option_" names[i] " \", \" " variable(names[i])
    print roff(meaning[names[i]])
    if (names[i] in older) print "Older name:\n.BR mi_option_" older[names[i]] "."
    if (names[i] in older_variable) print "Older name:\n.BR MIMALLOC_" older_variable[names[i]] "."
  }
  print ".SH ENVIRONMENT\nAll of the above."
  print ".SH HISTORY\nPart of the mimalloc interface of versions 3.4 and 3.5;"
  print "those from\n.B mi_option_snapshot_on_exit\non are additions to it."
  print ".SH NOTES"
  print "Older names still work in the environment, with a warning where warnings are shown."
  print ".SH EXAMPLES"
  print "See which options were read from the environment:\n.PP\n.nf"
  print "    MIMALLOC_VERBOSE=2 mimalloc\\-run true\n.fi"
  print ".PP\nGive free memory back at once:\n.PP\n.nf"
  print "    MIMALLOC_PURGE_DELAY=0 mimalloc\\-run program\n.fi"
  print ".SH SEE ALSO\n.BR mimalloc\\-run (1),\n.BR mi_option_get (3),\n.BR mimalloc (7)"
}
