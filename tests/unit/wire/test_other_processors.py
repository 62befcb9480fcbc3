"""Kernels for processors that this machine does not have: x86-64 without AVX, and ARM."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from llvmlite import ir

from winnow.wire.kernels import crc

ROOT = Path(__file__).parents[3]
KERNELS = """
import sys
import llvmlite.binding as llvm
from tests.twins.siphash import siphash_plain
from winnow.wire import key_search
from winnow.wire.kernels import crc
from winnow.wire.buffers import as_bytes

print(crc.CRC32C_BY)
assert crc.crc32c(as_bytes(b"123456789"), 0, 9) == 0xE3069283
keys = [b"", b"a", b"12345678", bytes(range(40))]
found = key_search.key_set_of(keys, (3, 5)).hashes
assert found.tolist() == sorted(siphash_plain(key, (3, 5))[0] for key in keys)

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
arm = llvm.Target.from_triple("aarch64-unknown-linux-gnu").create_target_machine()
for code in key_search._hash_keys.inspect_llvm().values():
    assert "llvm.x86" not in code
    module = llvm.parse_assembly(code)
    module.triple = arm.triple
    assert len(arm.emit_object(module)) > 500
for code in key_search._hash_keys.inspect_asm().values():
    assert "ymm" not in code and "zmm" not in code
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names x86-64 processors")
@pytest.mark.parametrize(
    ("name", "features", "found"),
    [("nehalem", "", "tables"), ("nehalem", "+sse4.2,-avx2", "sse4.2")],
)
def test_kernels_follow_the_processor_that_they_are_compiled_for(
    tmp_path: Path, name: str, features: str, found: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", KERNELS],
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'lib'}:{ROOT}",
            "NUMBA_CPU_NAME": name,
            "NUMBA_CPU_FEATURES": features,
            "NUMBA_CACHE_DIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == found


@pytest.mark.parametrize(
    ("machine", "features", "found"),
    [
        ("aarch64", {"crc": True}, "aarch64"),
        ("arm64", {"crc": True}, "aarch64"),
        ("aarch64", {}, "tables"),
        ("x86_64", {"crc": True}, "tables"),
        ("riscv64", {"sse4.2": True, "crc": True}, "tables"),
    ],
)
def test_crc_uses_an_instruction_only_of_its_own_processor(
    monkeypatch: pytest.MonkeyPatch, machine: str, features: dict[str, bool], found: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(crc, "_FEATURES", features)
    assert crc._instruction() == found


def test_crc_of_a_word_compiles_to_the_instruction_of_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crc, "CRC32C_BY", "aarch64")
    word, module = ir.IntType(64), ir.Module()
    module.triple = "aarch64-unknown-linux-gnu"
    function = ir.Function(module, ir.FunctionType(word, [word, word]), "step")
    builder = ir.IRBuilder(function.append_basic_block())
    _, step = crc._word_step(None, None, None)
    builder.ret(step(None, builder, None, function.args))
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    arm = llvm.Target.from_triple(module.triple).create_target_machine(features="+crc")
    assert "crc32cx" in arm.emit_assembly(llvm.parse_assembly(str(module)))
