#!/bin/sh
# SPDX-License-Identifier: MIT
# sqlite3 under LD_PRELOAD gives the same output as without.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
need sqlite3
cat >load.sql <<'END'
CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b REAL, c BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
  INSERT INTO t SELECT i, printf('%08x', i * 2654435761 % 4294967296), i / 7.0, zeroblob(i % 300) FROM n;
CREATE INDEX ia ON t(a);
CREATE INDEX ib ON t(b DESC, a);
SELECT count(*), sum(length(a)), max(a), min(b) FROM t;
SELECT substr(a, 1, 2) AS k, count(*), group_concat(id % 10) FROM t GROUP BY k ORDER BY k LIMIT 30;
UPDATE t SET a = a || a || a WHERE id % 5 = 0;
DELETE FROM t WHERE id % 3 = 0;
SELECT x.id, y.a FROM t x JOIN t y ON y.id = x.id * 2 ORDER BY y.a LIMIT 20;
VACUUM;
SELECT sum(length(c)), total(b) FROM t;
PRAGMA integrity_check;
SELECT json_group_array(id) FROM (SELECT id FROM t LIMIT 100);
SELECT no_such_column FROM t;
END
input=load.sql
same "sqlite3" sqlite3 :memory:
input=/dev/null
ours "sqlite3" sqlite3 :memory: "SELECT printf('%1000s', 'x')"
