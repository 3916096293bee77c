# ./dev cluster-test: deploys to a real one-node Kubernetes and asks for an answer
#
# usage: ./dev cluster-test [--keep]
#
# Builds and loads the image, applies deploy/k8s/base, waits until all pods are Ready, has a prompt answered through
# the router's Service, and takes the cluster down again (--keep leaves it up). The cluster scripts are in
# KVRELAY_CLUSTER_SCRIPTS, by default ../shared/cluster: build.sh (once), base-image.sh, up.sh, load-image.sh,
# kubectl.sh, run.sh, down.sh. Needs root, and the client built (./dev build).
source "$KVRELAY_ROOT/scripts/dev/lib.sh"

keep=0
[[ ${1:-} == --keep ]] && keep=1 && shift
[[ $# == 0 ]] || die "cluster-test: no option $1; see ./dev cluster-test --help"
scripts=${KVRELAY_CLUSTER_SCRIPTS:-$ROOT/../shared/cluster}
[[ -x $scripts/up.sh ]] || die "no cluster scripts at $scripts; set KVRELAY_CLUSTER_SCRIPTS"
[[ $(id -u) == 0 ]] || die "the cluster needs root"
need_programs kvrelay
kubectl() { "$scripts/kubectl.sh" "$@"; }

"$scripts/build.sh" >/dev/null
buildah --storage-driver vfs images -q docker.io/library/debian:bookworm-slim >/dev/null 2>&1 ||
  "$scripts/base-image.sh"
bash scripts/dev/image.sh

finish() {
  local status=$?
  if ((status != 0)); then
    kubectl -n kvrelay get pods -o wide >&2 || true
    kubectl -n kvrelay get events --sort-by=.lastTimestamp 2>/dev/null | tail -n 15 >&2 || true
    kubectl -n kvrelay logs -l app.kubernetes.io/name=kvrelay --prefix --tail=15 >&2 || true
  fi
  ((keep)) || "$scripts/down.sh"
  ((status == 0)) || say "cluster-test: FAILED"
}
trap finish EXIT
trap 'exit 130' INT TERM
"$scripts/up.sh"
"$scripts/load-image.sh" localhost/kvrelay:dev
kubectl apply -k "$ROOT/deploy/k8s/base"
started=$SECONDS
for role in prefill decode router; do
  kubectl -n kvrelay rollout status "deployment/kvrelay-$role" --timeout=180s
done
say "all pods Ready after $(seconds_since $started) s"

address=$(kubectl -n kvrelay get service kvrelay-router -o jsonpath='{.spec.clusterIP}:{.spec.ports[0].port}')
"$scripts/run.sh" "$BIN/kvrelay" wait --all --timeout-s 60 --address "$address"
answer=$("$scripts/run.sh" "$BIN/kvrelay" run --address "$address" --execution split --max-tokens 32 \
  --system "$DEMO_SYSTEM" "What is the capital of France?")
printf '%s\n' "$answer"
[[ $answer == *Paris* ]] || die "the answer does not name Paris"
say "cluster-test: passed, answered through Service kvrelay-router at $address"
