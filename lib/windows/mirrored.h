/* mirrored: which objects of a store are recordings, parts of recordings and labels, for store/mirror. */
#pragma once
#include "store/mirror.h"

extern const struct mirror_rules mirrored_recordings;
