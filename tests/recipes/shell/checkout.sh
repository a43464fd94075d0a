#!/bin/sh
# A test with curl alone: a sandbox of its own, a Charge that is paid, a Charge that expires, and their callbacks.
#
# LEYDEN_URL is the URL of the server. LEYDEN_ADMIN_TOKEN is its admin token, if it has one.
set -eu
server=${LEYDEN_URL:-http://127.0.0.1:8402}

# The first value of a field of a JSON text.
field() { grep -o "\"$1\":\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }

# ask METHOD PATH [BODY]: any operation of the service and of the control plane, in the sandbox.
ask() {
  method=$1 path=$2
  shift 2
  curl --silent --show-error --fail-with-body --request "$method" "$url$path" --header "apikey: $key" \
    --header 'content-type: application/json' ${1:+--data "$1"}
}

# admin METHOD PATH [BODY]: create and delete sandboxes.
admin() {
  method=$1 path=$2
  shift 2
  curl --silent --show-error --fail-with-body --request "$method" "$server/sandbox/v1/sandboxes$path" \
    --header "authorization: Bearer ${LEYDEN_ADMIN_TOKEN:-}" --header 'content-type: application/json' ${1:+--data "$1"}
}

# expect WHAT WANTED FOUND
expect() {
  if [ "$2" != "$3" ]; then
    echo "$1: expected $2, found $3" >&2
    exit 1
  fi
  echo "$1: $3"
}

sandbox=$(admin POST '' '{"name": "checkout", "rate": 0, "seed": 7, "ttl": "10m"}')
id=$(echo "$sandbox" | field id) url=$(echo "$sandbox" | field url) key=$(echo "$sandbox" | field apiKey)
trap 'admin DELETE "/$id" >/dev/null' EXIT

charge=$(ask POST /v0/charges '{"amount": "250000", "description": "Coffee", "callbackUrl": "http://shop.inbox.localhost/paid"}')
paid=$(echo "$charge" | field id)
payment=$(ask POST /sandbox/v1/payments "{\"request\": \"$(echo "$charge" | field request)\"}")
expect 'payment' succeeded "$(echo "$payment" | field status)"
expect 'paid charge' completed "$(ask GET "/v0/charges/$paid" | field status)"
expect 'callback' delivered "$(ask GET "/sandbox/v1/deliveries?chargeId=$paid" | field status)"

charge=$(ask POST /v0/charges '{"amount": "250000", "description": "Tea", "expiresIn": 60}')
ask POST /sandbox/v1/clock/advance '{"by": "60s"}' >/dev/null
expect 'unpaid charge' expired "$(ask GET "/v0/charges/$(echo "$charge" | field id)" | field status)"
