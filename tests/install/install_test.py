#!/usr/bin/env python3
"""Installs a build into a new folder, moves that, and uses all that is there.

usage: install_test.py BUILD CMAKE CXX [unittest arguments]
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, CMAKE, CXX = (sys.argv.pop(1) for _ in range(3))
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
import tiny_gguf  # noqa: E402


def ask(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, check=False, timeout=600, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout.decode()}\n{done.stderr.decode()}")
    return done.stdout.decode()


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        ask(CMAKE, "--install", BUILD, "--prefix", cls.folder / "first")
        cls.prefix = cls.folder / "moved"
        (cls.folder / "first").rename(cls.prefix)
        cls.program = cls.prefix / "bin" / "veery"
        cls.verbs = re.findall(r"^  ([a-z]+) {2,}\S", ask(cls.program, "--help"), re.MULTILINE)
        cls.model = cls.folder / "tiny.gguf"
        tiny_gguf.write(cls.model)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def one(self, pattern):
        found = list(self.prefix.glob(pattern))
        self.assertEqual(len(found), 1, f"{pattern}: {found}")
        return found[0]

    def answer(self):
        text = ask(self.program, "run", self.model, "--ids", "3,1,4", "-n", 8, "--temp", 0, "-t", 1, "--json")
        return ",".join(map(str, json.loads(text)["ids"]))

    def test_it_is_all_there(self):
        for pattern in ["lib*/**/libveery.a", "lib*/**/libveery.so", "lib*/**/pkgconfig/veery-c.pc", "include/veery/veery.h",
                        "lib*/**/pkgconfig/veery.pc", "lib*/**/cmake/veery/veeryConfig.cmake",
                        "lib*/**/cmake/veery/veeryConfigVersion.cmake", "include/veery/engine/model.h",
                        "share/bash-completion/completions/veery", "share/zsh/site-functions/_veery",
                        "share/fish/vendor_completions.d/veery.fish", "share/doc/veery/LICENSE"]:  # fmt: skip
            self.one(pattern)
        self.assertRegex(ask(self.program, "--version"), r"\Aveery \d+\.\d+\.\d+\n")
        # Nothing may lead back to where it was built.
        for pattern in ["lib*/**/*.cmake", "lib*/**/*.pc", "share/**/*"]:
            for path in self.prefix.glob(pattern):
                if path.is_file():
                    self.assertNotIn(str(pathlib.Path(BUILD).resolve()).encode(), path.read_bytes(), path)

    def test_man_pages(self):
        pages = self.prefix / "share" / "man" / "man1"
        names = ["veery", *(f"veery-{verb}" for verb in self.verbs)]
        self.assertEqual(sorted(path.name for path in pages.iterdir()), sorted(f"{name}.1" for name in names))
        quantize = (pages / "veery-quantize.1").read_text()
        for part in [".SH SYNOPSIS", "\\fB\\-\\-imatrix\\fR \\fIFILE\\fR", "Q4_K_M", ".SH EXAMPLES"]:
            self.assertIn(part, quantize)
        for path in pages.iterdir():
            if shutil.which("man"):
                done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", path], capture_output=True,
                                      env={**os.environ, "MANROFFSEQ": "", "MANWIDTH": "80"}, check=True)  # fmt: skip
                self.assertEqual(done.stderr, b"", path)
                self.assertIn(b"SYNOPSIS", done.stdout)
            if shutil.which("mandoc"):
                # A page without a date comes out the same from every build.
                lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", path], capture_output=True, check=False)
                found = [line for line in lint.stdout.decode().splitlines() if "missing date" not in line]
                self.assertEqual(found, [])

    def test_completions(self):
        script = self.one("share/bash-completion/completions/veery")
        asked = "COMP_WORDS=(veery convert --to h); COMP_CWORD=3; _veery; echo ${COMPREPLY[@]}"
        self.assertEqual(ask("bash", "--norc", "-c", f"source '{script}'; {asked}"), "hf\n")
        checks = {"zsh": ["zsh", "-n", self.one("share/zsh/site-functions/_veery")],
                  "fish": ["fish", "--no-execute", self.one("share/fish/vendor_completions.d/veery.fish")]}
        for shell, check in checks.items():
            if shutil.which(shell):
                self.assertEqual(ask(*check), "")

    def test_a_project_finds_the_package(self):
        build = self.folder / "with cmake"
        ask(CMAKE, "-S", HERE / "consumer", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DCMAKE_CXX_COMPILER={CXX}", "-DCMAKE_BUILD_TYPE=Debug")  # fmt: skip
        ask(CMAKE, "--build", build)
        self.assertEqual(ask(build / "consumer", self.model).strip(), self.answer())

    def test_pkg_config_finds_it(self):
        place = self.one("lib*/**/pkgconfig/veery.pc").parent
        flags = ask("pkg-config", "--cflags", "--libs", "veery",
                    env={**os.environ, "PKG_CONFIG_PATH": str(place)}).split()  # fmt: skip
        program = self.folder / "with_pkg_config"
        ask(CXX, "-std=c++20", HERE / "consumer" / "consumer.cc", "-o", program, *flags)
        self.assertEqual(ask(program, self.model).strip(), self.answer())

    def test_the_shared_library_exports_the_calls_of_the_header(self):
        headers = sorted((self.prefix / "include" / "veery").glob("veery*.h"))
        self.assertIn("veery_tensor.h", [path.name for path in headers])
        header = "\n".join(path.read_text() for path in headers)
        calls = sorted(re.findall(r"^VEERY_API [^(]*?(veery_\w+)\(", header, re.MULTILINE))
        self.assertGreater(len(calls), 40)
        listing = ask("nm", "-D", "--defined-only", self.one("lib*/**/libveery.so")).splitlines()
        self.assertEqual(sorted(line.split()[-1] for line in listing), calls)
        dynamic = ask("readelf", "-d", self.one("lib*/**/libveery.so"))
        self.assertRegex(dynamic, r"SONAME.*\[libveery\.so\.\d+\.\d+\]")

    def test_examples_in_three_languages(self):
        library = self.one("lib*/**/libveery.so")
        place = library.parent / "pkgconfig"
        flags = ask("pkg-config", "--cflags", "--libs", "veery-c",
                    env={**os.environ, "PKG_CONFIG_PATH": str(place)}).split()  # fmt: skip
        examples = HERE.parents[1] / "examples"
        where = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
        strict = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
        sources = [("cc", "c99", "generate.c"), ("cc", "c99", "regression.c"), (CXX, "c++17", "branches.cpp")]
        for compiler, standard, source in sources:
            program = self.folder / source.split(".")[0]
            ask(compiler, f"-std={standard}", *strict, examples / source, "-o", program, *flags)
        tokens = ["-n", 8, "--temp", 0, "-t", 1]
        expected = ask(self.program, "run", self.model, "-p", "hi", "--raw", "--json", *tokens)
        self.assertEqual(ask(self.folder / "generate", self.model, "hi", 8, env=where), json.loads(expected)["text"])
        lines = ask(self.folder / "branches", self.model, "hi", 2, env=where)
        self.assertEqual(ask(self.folder / "branches", self.model, "hi", 2, env=where), lines)
        scores = ask(sys.executable, examples / "classify.py", library, self.model, "it is ", "good", "bad").splitlines()
        self.assertEqual([line.split()[2] for line in scores], ["good", "bad"])
        self.assertAlmostEqual(sum(float(line.split()[0]) for line in scores), 1, delta=2e-4)
        self.assertEqual(ask(self.folder / "regression", env=where), "weights 1.50 -2.00 0.25, loss 0.0001\n")
        failed = subprocess.run([self.folder / "generate", "/no/such", "hi"], capture_output=True, check=False, env=where)
        self.assertEqual(failed.returncode, 1)
        self.assertIn(b"veery_model_load: not found: ", failed.stderr)

    def test_examples_are_a_project(self):
        build = self.folder / "examples"
        ask(CMAKE, "-S", HERE.parents[1] / "examples", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DCMAKE_CXX_COMPILER={CXX}", "-DCMAKE_BUILD_TYPE=Debug",
            *(f"-DCMAKE_{language}_FLAGS=-Wall -Wextra -Werror -pedantic" for language in ("C", "CXX")))  # fmt: skip
        ask(CMAKE, "--build", build)
        ask(sys.executable, HERE.parent / "examples" / "examples_test.py", build)
        self.assertEqual(ask(build / "regression"), ask(build / "linear_regression"))

    def test_the_guide_on_arrays(self):
        folder = self.folder / "guide"
        folder.mkdir()
        ask(self.program, "quantize", self.model, folder / "model.gguf", "Q4_0")
        source = folder / "guide.cc"
        ask(sys.executable, HERE.parent / "docs" / "tensor_guide.py", HERE.parents[1] / "docs" / "tensor.md", source)
        flags = ask("pkg-config", "--cflags", "--libs", "veery",
                    env={**os.environ, "PKG_CONFIG_PATH": str(self.one("lib*/**/pkgconfig/veery.pc").parent)}).split()  # fmt: skip
        ask(CXX, "-std=c++20", source, "-o", folder / "guide", *flags)
        blocks = ask(folder / "guide", cwd=folder).splitlines()
        self.assertEqual(blocks[-1], "Arrays from C")

    def test_a_project_finds_the_shared_library_alone(self):
        source = self.folder / "shared"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(shared LANGUAGES CXX)\n"
            "find_package(veery 0.1 REQUIRED COMPONENTS shared)\nadd_executable(shared main.cc)\n"
            "target_link_libraries(shared PRIVATE veery::shared)\n")  # fmt: skip
        (source / "main.cc").write_text("#include <cstdio>\n#include <veery/veery.hpp>\n"
                                        "int main() { std::puts(veery_version()); }\n")  # fmt: skip
        ask(CMAKE, "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DCMAKE_CXX_COMPILER={CXX}", "-DCMAKE_BUILD_TYPE=Debug")  # fmt: skip
        ask(CMAKE, "--build", source / "build")
        self.assertEqual("veery " + ask(source / "build" / "shared"), ask(self.program, "--version").splitlines()[0] + "\n")

    def test_headers_need_nothing_that_is_not_installed(self):
        include = self.prefix / "include"
        headers = sorted(path.relative_to(include) for path in include.rglob("*.h"))
        self.assertGreater(len(headers), 50)
        source = self.folder / "all.cc"
        source.write_text("".join(f"#include <{header}>\n" for header in headers))
        ask(CXX, "-std=c++20", "-fsyntax-only", "-I", include, source)


if __name__ == "__main__":
    unittest.main()
