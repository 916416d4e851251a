# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem campaign`: cuts at any place of a recorded run, checked by the thousand.

engine.py runs the program that checks (machine/campaign), runner.py hands ranges of cuts to
workers, store.py keeps what came out, figures.py counts it, page.py shows it.
"""
