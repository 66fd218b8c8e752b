/* mirrored: which objects of a store are recordings, parts of recordings and labels, for store/mirror. */
#ifndef BRR_EEG_MIRRORED_H
#define BRR_EEG_MIRRORED_H
#include "store/mirror.h"

extern const struct mirror_rules mirrored_recordings;

#endif
