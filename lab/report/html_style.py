# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The style sheet of the pages that `rem` writes."""

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; background: #fff }
h1 { font-size: 1.6rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse } td, th { text-align: left; padding: .2rem .8rem .2rem 0;
  border-bottom: 1px solid #ddd; vertical-align: top } td.n { text-align: right;
  font-variant-numeric: tabular-nums }
.ok { color: #00704a } .bad { color: #b00020; font-weight: bold } svg { width: 100%; height: auto }
.note { color: #555 }
"""
