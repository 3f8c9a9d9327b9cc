-- Returns the new state of a bucket or a fixed window. In: state, at, aux, units, checksum and
-- own_kind, and full for sealing.
include 'seal'
return state, true, struct.pack(kFixedState, own_kind, at, aux, units, checksum, forgotten),
       ends - now
