"""Files of Cocoax, written whole or not at all and read only if they are sound; the cache folder; digests of content."""

from cocoax.storage.cache import (
    CACHE_KINDS,
    CachedFile,
    CacheInfo,
    cache_folder,
    cache_info,
    clear_cache,
    sound_or_aside,
)
from cocoax.storage.digests import digest, file_digest, sealed, unsealed
from cocoax.storage.files import (
    about,
    alone_in,
    as_path,
    each_readable,
    files_below,
    readable,
    to_json,
    whole_file,
    write_figure,
    write_text,
)
from cocoax.storage.tensors import (
    Layout,
    check_torch_file,
    header_of,
    load_tensors,
    read_safetensors,
    understood,
    write_safetensors,
)

__all__ = [
    "CACHE_KINDS",
    "CacheInfo",
    "CachedFile",
    "Layout",
    "about",
    "alone_in",
    "as_path",
    "each_readable",
    "readable",
    "cache_folder",
    "cache_info",
    "check_torch_file",
    "clear_cache",
    "digest",
    "file_digest",
    "files_below",
    "header_of",
    "load_tensors",
    "read_safetensors",
    "sealed",
    "sound_or_aside",
    "to_json",
    "understood",
    "unsealed",
    "whole_file",
    "write_figure",
    "write_safetensors",
    "write_text",
]
