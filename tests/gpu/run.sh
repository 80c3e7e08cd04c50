#!/usr/bin/env bash
# Kernels on a GPU: correctness against double precision, then times against the bytes that move and the host's kernels.
# Needs Python with torch and triton; compares with vllm and xgrammar where they are installed. Under eight minutes.
#
#   tests/gpu/run.sh [--out FILE]            on the GPU
#   tests/gpu/run.sh --interpret             tiny sizes in Triton's interpreter, without a GPU
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PYTHONPATH="$PWD:$PWD/kernels${PYTHONPATH:+:$PYTHONPATH}"
for argument in "$@"; do
  if [ "$argument" = "--interpret" ]; then export TRITON_INTERPRET=1; fi
done
exec timeout 480 "${PYTHON:-python3}" -m tests.gpu "$@"
