#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Lines count from 1, and no acknowledged line is missing.
touch log
printed=$(tail -n 1)
last=$(tail -n 1 log)
awk '$0 != NR { print "line " NR " is " $0; exit 1 }' log || exit 1
[ "${last:-0}" -ge "${printed:-0}" ] || { echo "$printed was acknowledged, the last line is $last"; exit 1; }
