#!/bin/sh
# SPDX-License-Identifier: MIT
# git under LD_PRELOAD makes the same repository, byte for byte where that can be told, as without.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
need git
HOME=$work
GIT_CONFIG_NOSYSTEM=1
GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
GIT_AUTHOR_DATE='2001-02-03T04:05:06Z' GIT_COMMITTER_DATE='2001-02-03T04:05:06Z'
export HOME GIT_CONFIG_NOSYSTEM GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL \
  GIT_AUTHOR_DATE GIT_COMMITTER_DATE
git config --global init.defaultBranch main
git config --global gc.auto 0
cat >load <<'END'
set -e
rm -rf repo && mkdir repo && cd repo
git init -q
i=0
while [ $((i += 1)) -le 12 ]; do
  seq $i 37 $((i * 4000)) >file$i
  seq 1 $i 3000 | tr 1 x >common
  git add . && git commit -q -m "commit $i"
done
git checkout -q -b side HEAD~4
echo side >>file3 && git commit -q -a -m side
git merge -q main -m merge || true
git log --format='%H %s' --stat
git diff HEAD~3 | tail -40
git -c pack.threads=2 repack -q -a -d
git fsck --full 2>&1
git blame common | tail -5
git grep -c 77
git rev-parse HEAD
git show no-such-thing
END
same "git" sh load
ours "git" git --git-dir=repo/.git log -p
