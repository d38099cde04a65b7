# Golden tests: files with RUN lines, checked by FileCheck. Run by `make check`.
import os
import shutil

import lit.formats

config.name = "hlocc"
config.test_format = lit.formats.ShTest(execute_external=True)
config.suffixes = [".hlo", ".test"]
config.test_source_root = os.path.dirname(__file__)
build = lit_config.params.get("build", os.path.join(os.path.dirname(config.test_source_root), "build"))
config.test_exec_root = os.path.join(build, "lit")
config.excludes = ["corpus", "bench", "tools", "demo", "programs", "inputs"]
if "sanitize" in os.path.basename(build):
    config.available_features.add("sanitize")  # what is linked outside lacks the sanitizers' runtime
if shutil.which("pkg-config") and shutil.which("bash"):
    config.available_features.add("install")
for arch in ("aarch64", "riscv64"):
    if shutil.which("qemu-" + arch) and shutil.which(arch + "-linux-gnu-gcc"):
        config.available_features.add("run-" + arch)
config.substitutions.append(("%hlocc", os.path.join(build, "hlocc")))
config.substitutions.append(("%not", "sh " + os.path.join(config.test_source_root, "tools/status.sh")))
config.substitutions.append(("%check", "FileCheck-19 --dump-input=fail"))
config.substitutions.append(("%build", build))
config.substitutions.append(("%runtime", os.path.join(build, "libhlocc_rt.a")))
config.substitutions.append(("%corpus", os.path.join(config.test_source_root, "corpus")))
config.substitutions.append(("%python", "python3"))
