# Shared by the tests of scripts/check-*: a folder for a tree with errors, and a check of the checker's output. A test
# sources this and sets `check` to the command that checks the tree.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# expect STATUS TEXT [WHAT]: expects this exit status and text for the tree, in which WHAT was planted.
expect() {
  local said status=0
  said=$("${check[@]}") || status=$?
  [ "$status" = "$1" ] && [[ $said == *"$2"* ]] && return
  echo "expected status $1 and '$2', got $status and '$said'${3:+ for '$3'}"
  failed=1
}
