/* fuzz_encoding: one of four encodings of texts that are no UTF-8, so that targets reach the conversion. */
#pragma once
#include <stdlib.h>

/* kind: the lowest two bits count; 0 is the default, Windows-1252. */
static inline void fuzz_encoding(unsigned kind) {
    static const char *const encodings[4] = {"", "GB18030", "SHIFT_JIS", "EUC-KR"};
    if (setenv("BRR_TEXT_ENCODING", encodings[kind & 3], 1))
        abort();
}
