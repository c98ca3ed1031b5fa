# SPDX-License-Identifier: Apache-2.0
"""Finds names with a header that a source file never includes, neither itself nor through a header of the project. Builds do
not detect this: they read several files as one, after precompiled headers. Checked are the names of the standard library and
of fmt in NAMES, and the declarations of the project's headers: types, constants and functions.

usage: includes.py FILES...
"""
import re
import sys
from functools import lru_cache
from pathlib import Path

# The precompiled headers (CMakeLists.txt), with the names that the project uses from each. A name may occur in several.
NAMES = {
    'algorithm': '''all_of any_of none_of binary_search clamp copy copy_if copy_n count count_if equal fill fill_n find find_if
        find_if_not for_each generate is_sorted lower_bound max max_element min min_element minmax_element mismatch move
        nth_element partition remove remove_if replace reverse rotate search sort stable_sort transform unique upper_bound
        ranges::all_of ranges::any_of ranges::contains ranges::copy ranges::count ranges::count_if ranges::equal ranges::fill
        ranges::find ranges::find_if ranges::lower_bound ranges::max ranges::max_element ranges::min ranges::min_element
        ranges::none_of ranges::reverse ranges::sort ranges::transform ranges::upper_bound''',
    'array': 'array to_array',
    'cmath': '''cbrt ceil copysign cos erf exp expm1 fabs floor fma fmod frexp hypot isfinite isinf isnan ldexp llround log log10
        log1p log2 lrint lround nearbyint nextafter pow rint round sin sqrt tanh trunc''',
    'cstdint': 'int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t',
    'cstring': 'memchr memcmp memcpy memmove memset strchr strcmp strerror strlen strncmp strsignal',
    'filesystem': 'filesystem',
    'functional': 'equal_to function greater hash less minus multiplies plus ref',
    'limits': 'numeric_limits',
    'map': 'map multimap pair',
    'memory': 'addressof enable_shared_from_this make_shared make_unique shared_ptr unique_ptr weak_ptr',
    'optional': 'make_optional nullopt optional',
    'set': 'multiset set',
    'span': 'as_bytes as_writable_bytes span',
    'sstream': 'istringstream ostringstream stringstream',
    'stdexcept': 'domain_error invalid_argument length_error logic_error out_of_range overflow_error runtime_error',
    'string': 'getline stod stof stoi stol stoll stoull string string_view to_string',
    'string_view': 'string_view',
    'utility': 'as_const exchange forward in_place index_sequence make_index_sequence make_pair move pair swap',
    'variant': 'get_if holds_alternative monostate variant visit',
    'vector': 'pair vector',
}
HEADERS = {}
for header, names in NAMES.items():
    for name in names.split():
        HEADERS.setdefault(name, []).append(header)
HEADERS['fmt'] = ['fmt/format.h', 'fmt/core.h']

texts = {path: Path(path).read_text(encoding='utf-8') for path in sys.argv[1:]}
# Without comments and quoted text, line by line.
codes = {
    path: [re.sub(r'//.*', '', re.sub(r'"(\\.|[^"\\])*"', '""', line)) for line in text.splitlines()]
    for path, text in texts.items()
}
words = {path: set(re.findall(r'\w+', '\n'.join(lines))) for path, lines in codes.items()}


@lru_cache(None)
def included(path):
    """A file's includes, its own or through files of the project: headers of libraries, files of the project."""
    libraries, files, waiting = set(), set(), [path]
    while waiting:
        for bracket, name in re.findall(r'^[ \t]*#[ \t]*include ([<"])([^>"]+)', texts[waiting.pop()], re.M):
            if bracket == '<':
                libraries.add(name)
            elif name in texts and name not in files:
                files.add(name)
                waiting.append(name)
    return libraries, files


def declared(lines):
    """A header's declarations in its namespace, which are not indented."""
    for line in lines:
        if found := re.match(r'(?:class|struct|enum class|union|using|concept) (\w+)(?: final)?(?:$| [:={])', line):
            yield found[1]
        elif found := re.match(r'(?:inline )?constexpr [^(]*?\b(k[A-Z]\w*)', line):
            yield found[1]
        elif found := re.match(r'namespace (?:trainer::)?(\w+) {', line):
            yield found[1]
        elif not re.match(r'(?:using|return|template|namespace|friend|#|})', line):
            if found := re.match(r'\w[\w:<>,*& ]*[ *&](\w+)\(', line):
                yield found[1]


homes = {}  # name -> the project's headers that declare it; all of them declare `trainer`
for path, lines in codes.items():
    if path.endswith(('.h', '.cuh')):
        for name in declared(lines):
            homes.setdefault(name, []).append(path)
homes.pop('trainer', None)


def uses(line):
    """The names that a line uses, each with the headers that it may need."""
    for scope, name, fixed in re.findall(r'\b(?:(std|fmt)::((?:ranges::)?\w+)|(u?int(?:8|16|32|64)_t)\b)', line):
        name = fixed or ('fmt' if scope == 'fmt' else name)
        yield name, HEADERS.get(name, [])
    for name in re.findall(r'(?<![.\w:>])([A-Z]\w+|k[A-Z]\w+)\b', line):
        yield name, homes.get(name, [])
    for name in re.findall(r'(?<![.\w:>])([a-z]\w*)::', line):
        yield name, homes.get(name, [])
    for before, name in re.findall(r'(\w* ?)(?<![.\w:>])([a-z]\w+)\(', line):
        # `Type name(` declares a name of the file's own.
        if before.strip() in ('', 'return', 'else', 'co_return'):
            yield name, homes.get(name, [])


def own(lines):
    """A file's own declarations, in any scope."""
    text = '\n'.join(lines)
    for body in re.findall(r'\benum\b[^;{]*{([^}]*)}', text):
        yield from re.findall(r'\w+', body)
    yield from re.findall(r'\b(?:class|struct|union|enum|using|concept|typename)(?:\.\.\.)? (\w+)', text)
    yield from re.findall(r'[\w*&>)] (\w+)(?: ?[={(;,)]|\[|$)', text, re.M)
    yield from re.findall(r', (k[A-Z]\w*) =', text)


def is_reachable(path, home):
    """Whether a file could mean that header: the folders of tests are independent of each other."""
    return not home.startswith('tests/') or Path(path).parts[:2] == Path(home).parts[:2]


def is_included(path, name, headers):
    libraries, files = included(path)
    if headers[0] not in texts:
        return not libraries.isdisjoint(headers)
    # A name that is mentioned may be declared there in a way that `declared` does not detect.
    return path in headers or any(name in words[file] for file in files)


for path, lines in codes.items():
    if any(re.search(r'^#include [A-Z]', texts[file], re.M) for file in {path} | included(path)[1]):
        continue  # names from macros are unknown here
    told = set(own(lines)) - set(HEADERS)
    for number, line in enumerate(lines, 1):
        for name, needed in uses(line):
            headers = [header for header in needed if is_reachable(path, header)]
            if headers and name not in told and not is_included(path, name, headers):
                told.add(name)
                print(f'{path}:{number}: {name} needs {headers[-1]}')
