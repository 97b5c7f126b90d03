#!/bin/sh
# SPDX-License-Identifier: MIT
# A real parser reads the JSON of statistics and of the heap dump.
set -u
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
program=$MI_TEST_BUILDDIR/tests/api/stats-json
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
status=0
for form in 0 3 20 100 1000 9000 30000 heap dump hash pages; do
  "$program" $form >"$tmp/$form" || { echo "FAIL: stats-json $form"; exit 1; }
done

PYTHONMALLOC=malloc python3 - "$tmp" <<'EOF' || { echo "FAIL: contents"; status=1; }
import json, os, sys
def read(form):
    try: return json.load(open(sys.argv[1] + "/" + form))
    except ValueError as error: sys.exit("no JSON: %s: %s" % (form, error))
def check(what, holds):
    if not holds: sys.exit("not true: " + what)
for form in os.listdir(sys.argv[1]): read(form)
stats = read("0")
check("version", stats["stat_version"] == 5)
check("bins", len(stats["malloc_bins"]) == 74 and len(stats["page_bins"]) == 74)
check("sizes", stats["malloc_bins"][60]["block_size"] == 512 * 1024)
for name, value in stats.items():
    for v in value if isinstance(value, list) else [value]:
        check(name, not isinstance(v, dict) or 0 <= v["current"] <= v["peak"])
heap = read("heap")
check("blocks of the heap", heap["malloc_normal"]["current"] >= 1000)
check("huge block of the heap", heap["malloc_huge"]["current"] >= 5 << 20)

for form in "dump", "hash", "pages":
    heaps = read(form)["heaps"]
    check("main heap", heaps[0]["seq"] == 0 and len(heaps) == 2)
    pages = heaps[1]["pages"]
    check("pages", len(pages) == 2)
    sizes = sorted(p["block_size"] for p in pages)
    most = 1280 if os.environ.get("MI_TEST_VALGRIND") == "1" else 1100
    check("block sizes", 1000 <= sizes[0] <= most and sizes[1] >= 5 << 20)
    for page in pages:
        check("page", page["used"] == 1 and page["reserved"] >= page["block_size"])
        check("thread", page["thread_id"] > 0 or page["block_size"] >= 5 << 20)
        check("id", int(page["id"], 16) != 0)
        check("blocks", ("blocks" in page) == (form != "pages"))
        if form != "pages":
            check("block", len(page["blocks"]) == 1)
            id, size = page["blocks"][0]
            start = int(page["id"], 16)
            inside = start <= int(id, 16) < start + page["reserved"]
            check("address of the block", inside or form == "hash")
            check("size of the block", size == page["block_size"])
EOF
exit $status
