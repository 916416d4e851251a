# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tables, pictures and styles for people, each a pure function of decoded records."""
