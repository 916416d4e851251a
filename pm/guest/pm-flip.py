# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: pm-flip.py FILE OFFSET changes a bit; a second time, it back."""

import sys

with open(sys.argv[1], "r+b") as file:
    file.seek(int(sys.argv[2]))
    byte = file.read(1)[0]
    file.seek(int(sys.argv[2]))
    file.write(bytes([byte ^ 4]))
