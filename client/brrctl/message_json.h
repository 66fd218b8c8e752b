/* message_json: fields of a protobuf message as members of a JSON object, read through the message's descriptor. */
#pragma once
#include <protobuf-c/protobuf-c.h>

#include "base/json.h"

/* Writes the named fields in this order into the object that is open. fields: words with blanks between them:
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
 * A word that names no field, or one that cannot be printed so, is a mistake of the program and ends it. */
void message_json(struct json_writer *w, const ProtobufCMessage *message, const char *fields);
