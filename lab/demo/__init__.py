# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The demonstration: a machine under load loses its power and resumes."""
