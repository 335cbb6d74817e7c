"""A text file as a C++ header with one string constant.

usage: embed_text.py TEXT NAME HEADER
"""
import pathlib
import sys

text, name, header = sys.argv[1:]
pathlib.Path(header).write_text(
    f"#pragma once\nnamespace pooch::interpose {{\ninline constexpr char {name}[] = R\"text(\n"
    f"{pathlib.Path(text).read_text(encoding='utf-8')})text\";\n}}  // namespace pooch::interpose\n", encoding="utf-8")
