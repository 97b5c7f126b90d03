#!/bin/sh
# SPDX-License-Identifier: MIT
# perl under LD_PRELOAD gives the same output as without.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
need perl
cat >load.pl <<'END'
use strict; use warnings;
my $x = 12345; my %seen; my @list;
for my $i (1 .. 60000) {
  $x = ($x * 1103515245 + 12345) % 2147483648;
  my $word = sprintf("%o", $x) x (1 + $x % 5);
  $seen{substr($word, 0, 3)} .= $word if $i % 3;
  push @list, $word;
}
print join(",", map { "$_=" . length($seen{$_}) } (sort keys %seen)[0 .. 20]), "\n";
my @sorted = sort { length($a) <=> length($b) or $a cmp $b } @list;
print "$sorted[0] $sorted[-1] ", scalar(@sorted), "\n";
my $text = join(" ", @list); my $n = 0;
$n += length($1) while $text =~ /(7+1[0-6]+)/g;
$text =~ s/(\d)(\d)/$2$1/g;
print "$n ", unpack("%32C*", $text), "\n";
$| = 1;
my $pid = fork();
if (!$pid) { my @copy = map { reverse $_ } @list; print scalar(@copy), "\n"; exit 4; }
waitpid($pid, 0); print $? >> 8, "\n";
print `echo from the shell`;
undef @list; undef %seen;
my @deep = map { [ map { { key => $_ } } 1 .. 50 ] } 1 .. 500;
print $deep[77][7]{key}, "\n";
exit 2;
END
PERL_HASH_SEED=0
export PERL_HASH_SEED
same "perl" perl load.pl
ours "perl" perl -e 'my %h = map { $_ => "x" x $_ } 1 .. 500; print scalar(keys %h)'
