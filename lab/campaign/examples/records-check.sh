#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Each line is the number of the one before plus one, and none is missing that was said.
touch log
said=$(tail -n 1)
last=$(tail -n 1 log)
awk '$0 != NR { print "line " NR " is " $0; exit 1 }' log || exit 1
[ "${last:-0}" -ge "${said:-0}" ] || { echo "$said was said, the last line is $last"; exit 1; }
