/* alarm_rights: which caller may answer which alarm, for orders to the desk (alarms/desk.h). Loop thread. */
#pragma once
#include "base/base.h"

/* desk_order.permit; ctx: the const struct auth_caller. NOT_FOUND: the caller sees no such bed; DENIED: it only sees it. */
int alarm_rights_permit(void *ctx, const char *principal, const char *bed, struct err *err);
