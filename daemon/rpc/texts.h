/* texts: text fields of protobuf messages are UTF-8. Those of callers are checked; those of the daemon, which may hold names of
 * files in another encoding, are repaired, because most clients refuse a whole message for one such text. Any thread. */
#pragma once
#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"
#include "base/base.h"

/* Elements that a repeated field of a caller's message may have, but for the fields of numbers in Burst, which have theirs. */
enum { TEXTS_MAX_REPEATED = 1024 };
/* Unpacks a message of a caller, and checks its text fields and how many elements its repeated fields have. It lies in the arena: a
 * hostile message cannot use more than the arena has. NULL and an error if the bytes are no such message. */
void *texts_unpack(struct arena *arena, const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t len, struct err *err);
/* The name of a text field that is not UTF-8, in the message or those within it; NULL = none. The schema has no recursive type. */
const char *texts_bad_field(const ProtobufCMessage *message);
/* Replaces each byte that is not part of a UTF-8 character by '?', in the text fields of a packed message of this type. */
void texts_repair(const ProtobufCMessageDescriptor *type, uint8_t *packed, size_t len);
