part 'ledger'
-- A script for a ledger adds each change of a budget to a stream next to the counter: the entries of
-- core::budget::record(). Its last keys are the streams, and its last argument says what the entries
-- need and a counter does not. `ledger` has for the key of each budget: stream, name (of the kind of
-- the call, unless the id says another), id (its text), windows (of holds that have ended); then the
-- last instant, and what is spent and held; and in a list the entries.
local ledger, ledger_keep, ledger_ms = {}, struct.unpack(kLedgerArgument, ARGV[#ARGV])
do
  local arg, at, found = table.remove(ARGV), 1 + kLedgerArgumentSize, {}
  while at <= #arg do
    local index, name, id, windows
    index, name, id, windows, at = struct.unpack('<I1I1c0I1c0I1c0', arg, at)
    found[#found + 1] = {index = index, name = name, id = id, windows = windows}
  end
  for i = #found, 1, -1 do
    found[i].stream = table.remove(KEYS)
    ledger[KEYS[found[i].index]] = found[i]
  end
end

-- The start of the window of an instant, if it is one of these four.
local function opening(windows, from, instant)
  if #windows - from < kBudgetWindowsSize - 1 then return nil end
  local _, w0, w1, w2, w3, w4 = struct.unpack(kBudgetWindows, windows, from)
  if instant < w0 or instant >= w4 then return nil end
  return instant >= w3 and w3 or instant >= w2 and w2 or instant >= w1 and w1 or w0
end

local function add_entry(book, kind, at, window, spent, held, id, ends)
  local before = book.last >= window and book.spent or 0
  local entry = {'kind', kind, 'at', at, 'spent', spent - before, 'spent_after', spent,
                 'held', held - book.held, 'held_after', held, 'limit', book.limit, 'window', window}
  local function add(name, value)
    if value and value ~= '' then entry[#entry + 1], entry[#entry + 2] = name, value end
  end
  add('hash', id)
  add('ends', ends)
  if ends and kind ~= 'extend' then add('on_expiry', book.releases and 'release' or 'charge') end
  add('new', book.is_new and 1)
  book.is_new = false
  book[#book + 1] = entry
  book.last, book.spent, book.held = at, spent, held
  return add
end

-- Adds the holds that have ended since the last change, in the order of their ends. Returns the
-- first instant whose window is not known, if there is one.
local function add_ended(book, ids, ends, units, window_of)
  local order, last = {}, book.last
  for i = 1, #ends do
    if ends[i] > last then order[#order + 1] = i end
  end
  table.sort(order, function(a, b)
    if ends[a] ~= ends[b] then return ends[a] < ends[b] end
    return a < b
  end)
  for _, i in ipairs(order) do
    local window = window_of(ends[i])
    if not window then return ends[i] end
    local spent = book.last >= window and book.spent or 0
    if not book.releases then
      spent = units[i] < kMaxAmount - spent and spent + units[i] or kMaxAmount
    end
    add_entry(book, book.releases and 'released' or 'charged', ends[i], window, spent,
              book.held - units[i], ids[i])
  end
end

local function write_entries(book, counter_ms)
  for _, entry in ipairs(book) do
    redis.call('XADD', book.stream, 'MAXLEN', '~', ledger_keep, '*', unpack(entry))
  end
  if book[1] then redis.call('PEXPIRE', book.stream, counter_ms + ledger_ms) end
end

part 'ledger_id'
-- In scan_holds.
cells.past_ids = cells.past_ids or {}
cells.past_ids[past] = string.sub(text, j, j + (kHoldIdSize - 1))

part 'ledger_before'
-- In budget.
local book = ledger[key]
book.last, book.spent, book.held, book.limit, book.releases = last, spent, held, capacity, releases
book.is_new = cells.is_new

part 'ledger_undo'
book.ends = was_kind == kOpen and was_rest

part 'ledger_entries'
do
  local said = redis.pcall('XLEN', book.stream)
  if type(said) == 'table' then
    return nil, {err = 'FOREIGNVALUE ' .. string.gsub(string.sub(book.stream, 1, 64), '%c', '?') ..
                       ' holds another type than a ledger'}
  end
  if past_ends then
    local unknown = add_ended(book, cells.past_ids, past_ends, past_units, function(instant)
      if period > 0 then return instant - instant % period end
      if instant >= opens then return opens end
      return opening(arg, 2 + kBudgetCallSize, instant) or opening(book.windows, 1, instant)
    end)
    if unknown then
      local number = string.byte(arg, 2 + kBudgetCallSize)
      return nil, {ok = string.format('WINDOW %d %.0f %.0f %.0f', number, at, now, unknown)}
    end
  end
  local name = opens_hold and 'hold' or extends and 'extend' or cancels and 'cancel' or
    settles and kind == kOpen and 'settle' or book.name
  local has_id = opens_hold or extends or settles or verb == kGiveBack and does ~= kWithoutId
  local ends = opens_hold or extends
  add_entry(book, name, at, opens, spent, held, has_id and id, ends and at + ttl or book.ends)('id', book.id)
end

part 'ledger_reset'
if not cells.is_new then
  local spent, held, opens_hold, extends, cancels, settles = 0, 0
  include 'ledger_entries'
end

part 'ledger_write'
-- In write. In: key, value, and ms, for how long it is kept.
if value and ledger[key] then write_entries(ledger[key], ms) end

part 'ledger_forget'
-- In request, after a reset.
for i = 1, count do
  if ledger[keys[i]] then write_entries(ledger[keys[i]], 1) end
end
