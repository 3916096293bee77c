# ./dev templates: published chat templates, rendered here and by Jinja
#
# usage: ./dev templates
#
# Fetches the source package of llama-cpp-python, which holds chat templates of some 70 models, and Jinja; renders every
# template with several conversations, ours and Jinja's set up as transformers does, and compares the text. Prints a line
# a template; exit code 0 if none differs.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
[[ $# == 0 ]] || die "templates takes no arguments"
need_programs kvrelay_render
LLAMA_CPP_PYTHON=0.3.36 JINJA=3.1.6 # as published in the Python index
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say "fetching llama-cpp-python==$LLAMA_CPP_PYTHON and Jinja"
python3 -m pip install -q --disable-pip-version-check --target "$work/python" "jinja2==$JINJA" >"$work/log" 2>&1 &&
  python3 -m pip download -q --disable-pip-version-check --no-deps --no-binary llama-cpp-python --dest "$work" \
    "llama-cpp-python==$LLAMA_CPP_PYTHON" >"$work/log" 2>&1 || die "they could not be fetched: $(cat "$work/log")"
PYTHONPATH=$work/python python3 scripts/templates.py "$BIN/kvrelay_render" "$work"/llama_cpp_python-*.tar.gz
