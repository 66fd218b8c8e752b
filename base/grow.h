/* grow: arrays that grow by doubling. */
#pragma once
#include <stdbool.h>
#include <stdlib.h>

enum { GROW_FIRST = 64 };

/* True if the array `items`, which has room for `capacity` and holds n, has room for one more: it is moved and `capacity` raised
 * where it is full. False when memory is out; then nothing has changed. Arguments are evaluated several times. */
#define GROW(items, n, capacity)                                                                                                   \
    ({                                                                                                                             \
        bool room_ = (n) < (capacity);                                                                                             \
        if (!room_) {                                                                                                              \
            const size_t most_ = (capacity) > 0 ? 2 * (size_t)(capacity) : GROW_FIRST;                                             \
            __typeof__(items) moved_ = realloc((items), most_ * sizeof *moved_);                                                   \
            room_ = moved_ != NULL;                                                                                                \
            (items) = room_ ? moved_ : (items);                                                                                    \
            (capacity) = room_ ? (__typeof__(capacity))most_ : (capacity);                                                         \
        }                                                                                                                          \
        room_;                                                                                                                     \
    })
