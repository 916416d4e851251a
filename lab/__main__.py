# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`python -m lab`: what the script `rem` runs."""

import sys

from lab.cli import main
from lab.run import end_threads_on_ctrl_c

end_threads_on_ctrl_c()
sys.exit(main(sys.argv[1:]))
