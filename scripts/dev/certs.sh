# ./dev certs: makes a CA, and certificates and a token for a service with TLS
#
# usage: ./dev certs DIR [HOST...]
#
# Writes to DIR: ca.crt and ca.key; router, prefill and decode, each .crt and .key; tokens (for the router's
# --client-tokens) and token (for the client's --token-file). Each certificate has its role as URI name
# (spiffe://kvrelay/router and so on; KVRELAY_TLS_TRUST_DOMAIN replaces kvrelay) and the names localhost, 127.0.0.1,
# ::1 and every HOST, for clients of the router. Run again, it keeps the CA and the token, and renews the
# certificates: running processes take them within seconds. Good for 90 days, the CA for ten years. Whoever has ca.key
# can be any process of the service; keep it elsewhere.
source "$KVRELAY_ROOT/scripts/dev/lib.sh"
[[ $# -ge 1 && $1 != -* ]] || die "a directory is wanted: ./dev certs DIR [HOST...]"
have openssl || die "openssl is missing; run ./dev setup first"
directory=$1
shift

names="DNS:localhost,IP:127.0.0.1,IP:::1"
for host in "$@"; do
  if [[ $host =~ ^[0-9.]+$ || $host == *:* ]]; then names+=",IP:$host"; else names+=",DNS:$host"; fi
done
umask 077
mkdir -p "$directory"
work=$(mktemp -d "$directory/.new.XXXXXX")
trap 'rm -rf "$work"' EXIT

quiet() { # quiet COMMAND...: shows what it says only if it fails
  "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; die "failed: $*"; }
}
new_key() { quiet openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }

if [[ ! -e $directory/ca.key ]]; then
  new_key "$work/ca.key"
  quiet openssl req -x509 -new -key "$work/ca.key" -days 3650 -subj "/CN=kvrelay CA" \
    -addext "keyUsage=critical,keyCertSign,cRLSign" -out "$work/ca.crt"
  mv "$work/ca.crt" "$work/ca.key" "$directory"
fi
for role in router prefill decode; do
  new_key "$work/$role.key"
  quiet openssl req -new -key "$work/$role.key" -subj "/CN=kvrelay $role" -out "$work/$role.csr"
  printf '%s\n' "basicConstraints=CA:FALSE" "extendedKeyUsage=serverAuth,clientAuth" \
    "subjectAltName=URI:spiffe://${KVRELAY_TLS_TRUST_DOMAIN:-kvrelay}/$role,$names" >"$work/extensions"
  quiet openssl x509 -req -in "$work/$role.csr" -CA "$directory/ca.crt" -CAkey "$directory/ca.key" -days 90 \
    -set_serial "0x$(openssl rand -hex 16)" -extfile "$work/extensions" -out "$work/$role.crt"
done
mv "$work"/*.key "$work"/*.crt "$directory"
if [[ ! -e $directory/token ]]; then
  openssl rand -hex 32 >"$directory/token"
  echo "local $(cat "$directory/token")" >"$directory/tokens"
fi
say "certificates of router, prefill and decode, and a token, are in $directory"
