# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`python -m lab`: what the script `rem` runs."""

import sys

from lab.cli import enter

sys.exit(enter(sys.argv[1:]))
