#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Numbers appended to a file, each said when fsync has returned; meanwhile pages and processes, as on any server.
(while :; do head -c 1000000 /dev/urandom | md5sum; done) >/dev/null &
i=0
while :; do
	i=$((i + 1))
	echo $i >>log
	sync log && echo $i
done
