# ./dev image: builds the container image localhost/kvrelay:dev
#
# usage: ./dev image
#
# Builds deploy/Containerfile with buildah (no daemon; vfs storage, which copies the whole tree for every cached layer, so
# none are cached). The model of ./dev setup goes into the image.
# Where no registry can be reached, docker.io/library/debian:bookworm-slim must be in buildah's store already.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
[[ $# == 0 ]] || die "image takes no arguments"
have buildah || die "buildah is missing (apt-get install --no-install-recommends buildah)"
[[ -f $ROOT/models/$MODEL_NAME ]] || die "no model at models/$MODEL_NAME; run ./dev setup first"
version=$(sed -n 's/^project(kvrelay VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
started=$SECONDS
buildah --storage-driver vfs bud --isolation chroot --network host \
  --build-arg VERSION="$version" --build-arg REVISION="$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)" \
  --ignorefile .containerignore -f deploy/Containerfile -t localhost/kvrelay:dev .
buildah --storage-driver vfs images localhost/kvrelay:dev
say "image localhost/kvrelay:dev built in $(seconds_since $started) s"
