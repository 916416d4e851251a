#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Append numbers to a file and print each after its fsync; meanwhile dirty pages and start processes, as a server does.
(while :; do head -c 1000000 /dev/urandom | md5sum; done) >/dev/null &
i=0
while :; do
	i=$((i + 1))
	echo $i >>log
	sync log && echo $i
done
