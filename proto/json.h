/* json: fields of protobuf messages as members of a JSON object, read through the message's descriptor. An enum is
 * the words behind those of its type ("succeeded"), bytes are base64, whole numbers from 2^53 on are texts, numbers
 * that are not finite are null. Bounded: by the writer's text, which then is not ok, and JSON_DEPTH. Any thread. */
#pragma once
#include <protobuf-c/protobuf-c.h>

#include "base/json.h"

enum { JSON_DEPTH = 32 /* of a message within others; what lies deeper is null */ };

/* Writes fields into the object that is open. NULL: every field in the order of the message; a message that is not set
 * is null, and of a oneof the set member alone is there. Else the named ones, words with blanks between them:
 *
 *     name             a field under its own name; an array if it is repeated
 *     member=name      a field under another name
 *     name?            a text, null if it is empty
 *     name~            a double, null unless it is above 0
 *     name!{}          a text that is JSON, as it is; {} where it is none
 *     name[a b=c]      the words of a message as further members; left out when the message is not set
 *     name(a b=c)      the words of a message within its own object; left out when the message is not set
 *     name{key value}  a repeated message as one object: these two fields of each are a member's name and value
 *
 * False: a word names no field, or one that cannot be printed so, a mistake of the program; the others are there. */
bool message_json(struct json_writer *w, const ProtobufCMessage *message, const char *fields);
