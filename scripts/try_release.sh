#!/usr/bin/env bash
# Builds sdist and wheel, checks what an index would show of them, and runs the wheel in an empty
# folder as pip and as pipx install it. Only tpsrl is installed: the libraries are lent by the
# Python that is given; nothing is downloaded but the pip that pipx keeps for itself.
#
#   scripts/try_release.sh [PYTHON]      with the extra 'dev'; by default .venv/bin/python
#
# Installing and running, both ways together, may take RELEASE_LIMIT seconds, 120 unless the
# environment says otherwise: who tries the wheel should not wait for longer.
set -euo pipefail
limit="${RELEASE_LIMIT:-120}"
cd "$(dirname "$0")/.."
python="$(command -v "${1:-.venv/bin/python}")"
[[ $python == /* ]] || python="$PWD/$python"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_DEPS=1
export PIPX_HOME="$work/pipx" PIPX_BIN_DIR="$work/pipx_bin" PIPX_MAN_DIR="$work/pipx_man"

lender() { # a wheel at $1 that lends the libraries of $python to where it is installed
  "$python" - "$1" <<'END'
import sys, zipfile

files = {
    "lent.pth": "\n".join(p for p in sys.path if p.endswith("-packages")) + "\n",
    "lent-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: lent\nVersion: 1\n",
    "lent-1.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
files["lent-1.dist-info/RECORD"] = "".join(f"{name},,\n" for name in files)
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
END
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
began=$SECONDS # building is not waited for by who installs

"$python" -m venv --without-pip "$work/pip"
pip=("$python" -m pip --python "$work/pip/bin/python")
lender "$work/lent-1-py3-none-any.whl"
"${pip[@]}" install --quiet "$wheel"
"${pip[@]}" install --quiet "$work/lent-1-py3-none-any.whl"
broken="$("${pip[@]}" check | grep '^tpsrl ' || true)"
[[ -z $broken ]] || { echo "$broken" >&2; exit 1; }
try "$work/pip/bin/tpsrl"

# The libraries come first here, and with them an older tpsrl that must not stand in for the wheel.
"$python" -m pipx install --quiet --python "$python" --preinstall "$work/lent-1-py3-none-any.whl" \
  --pip-args=--force-reinstall "$wheel"
try "$PIPX_BIN_DIR/tpsrl"
took=$((SECONDS - began))
if ((took > limit)); then
  echo "try_release.sh: installing and running the wheel took $took s, more than the $limit s" \
    "that they may; find what became slow, or give RELEASE_LIMIT=SECONDS on a busy machine" >&2
  exit 1
fi
ls -lh "$work/dist"
echo "tpsrl $wanted: built and checked in $began s, run as pip and as pipx install it in $took s"
