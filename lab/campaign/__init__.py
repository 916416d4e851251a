# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem campaign`: cuts at any place of a recorded run, judged by the thousand.

engine.py runs the program that judges (machine/campaign), runner.py hands ranges of cuts to
workers, store.py keeps what came out, figures.py counts it, page.py shows it.
"""
