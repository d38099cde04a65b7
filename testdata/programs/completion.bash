# What bash would offer: completion.bash FILE
source "$1"
offer() {
    COMP_WORDS=(hlocc "$@")
    COMP_CWORD=$#
    _hlocc 2>/dev/null
    echo "$*: ${COMPREPLY[*]}"
}
offer comp
offer compile --em
offer compile --emit = sh
offer compile --elided-constants =
