#!/usr/bin/env bash
# Builds sdist and wheel, checks what an index would show of them, and runs the wheel in an empty
# folder as pip and as pipx install it. Only tpsrl is installed: the libraries are lent by the
# Python that is given; nothing is downloaded but the pip that pipx keeps for itself.
#
#   scripts/try_release.sh [PYTHON]      with the extra 'dev'; by default .venv/bin/python
set -euo pipefail
cd "$(dirname "$0")/.."
python="$(command -v "${1:-.venv/bin/python}")"
[[ $python == /* ]] || python="$PWD/$python"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_DEPS=1
export PIPX_HOME="$work/pipx" PIPX_BIN_DIR="$work/pipx_bin" PIPX_MAN_DIR="$work/pipx_man"

lend_libraries() { # to the environment $1
  "$python" -c 'import sys; print(*(p for p in sys.path if p.endswith("-packages")), sep="\n")' \
    >"$(echo "$1"/lib/python*/site-packages)/lent.pth"
}

try() { # the command $1, which is installed below $work
  mkdir "$work/empty"
  (
    cd "$work/empty"
    version="$("$1" --version)"
    [[ $version == "tpsrl $wanted" ]] || { echo "$1 says $version, not $wanted" >&2; exit 1; }
    "$1" plan scenario=set_table goal="bring the apple from the fridge to the table"
    "$1" eval scenario=rearrange_easy episodes=1 workers=1 max_steps=20 out=result >/dev/null
    test -s result/summary.json
  )
  rm -r "$work/empty"
}

"$python" -m build --no-isolation --outdir "$work/dist" >"$work/build.log" 2>&1 ||
  { cat "$work/build.log" >&2; exit 1; }
"$python" -m twine check --strict "$work"/dist/*
wheel="$(echo "$work"/dist/*.whl)"
wanted="$(basename "$wheel" | cut -d- -f2)"

"$python" -m venv --without-pip "$work/pip"
pip=("$python" -m pip --python "$work/pip/bin/python")
"${pip[@]}" install --quiet "$wheel"
lend_libraries "$work/pip"
broken="$("${pip[@]}" check | grep '^tpsrl ' || true)"
[[ -z $broken ]] || { echo "$broken" >&2; exit 1; }
try "$work/pip/bin/tpsrl"

"$python" -m pipx install --quiet --python "$python" "$wheel"
lend_libraries "$PIPX_HOME/venvs/tpsrl"
try "$PIPX_BIN_DIR/tpsrl"
ls -lh "$work/dist"
echo "tpsrl $wanted: built, checked, and run as pip and as pipx install it"
