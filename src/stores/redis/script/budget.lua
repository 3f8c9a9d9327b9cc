part 'budget_records'
-- A budget is a hash: its head, and cells of records. An id has one record, in a cell of the open or
-- of the ended ids, by linear hashing. `cells` caches those of one call, by name; cells.put has the
-- names of those that the call changes.
local function checked(cells, text)
  if #text % kIdRecordSize == 0 then return text end
  local key = string.gsub(string.sub(cells.key, 1, 64), '%c', '?')
  error('FOREIGNVALUE ' .. key .. ' holds a damaged list of ids')
end

local function cell(cells, name)
  local text = cells[name]
  if not text then
    text = checked(cells, not cells.is_new and redis.call('HGET', cells.key, name) or '')
    cells[name] = text
  end
  return text
end

-- Returns the name of the cell of an id among that many.
local function cell_of(letter, id, count)
  local hash, size = struct.unpack('<I4', id), 1
  while size < count do size = size * 2 end
  local number = hash % size
  if number >= count then number = number - size / 2 end
  return letter .. number
end

local function find_id(text, id)
  local at = string.find(text, id, 1, true)
  while at do
    if at % kIdRecordSize == 1 then return at end
    at = string.find(text, id, at + 1, true)
  end
end

-- Returns the kind of a record, its amount, and the rest.
local function record_at(text, at)
  local amount, high, rest = struct.unpack(kIdNumbers, text, at + kHoldIdSize)
  local more = high % 32
  return (high - more) / 32, amount + more * kAmountHigh, rest
end

local function record(id, kind, amount, rest)
  local low = amount % kAmountHigh
  return id .. struct.pack(kIdNumbers, low, (amount - low) / kAmountHigh + kind * 32, rest)
end

-- The multiple of 2^20 us until which an id is known that has ended at `ends`.
local function known_after(ends, remember)
  ends = ends + remember + (kForgottenUnit - 1)
  return (ends - ends % kForgottenUnit) / kForgottenUnit
end

-- Returns the records of ended ids that are known at `at`.
local function known_records(text, at, remember)
  local known = {}
  for i = 1, #text, kIdRecordSize do
    local kind, _, rest = record_at(text, i)
    local ends = kind == kCharged or kind == kReleased
    local until_known = ends and known_after(rest, remember) or rest % 4294967296
    if until_known * kForgottenUnit > at then
      known[#known + 1] = string.sub(text, i, i + (kIdRecordSize - 1))
    end
  end
  return table.concat(known)
end

-- Moves the records of a cell that belong to a new one, the next.
local function split(cells, letter, head)
  local count, size = head[letter .. 'cells'], 1
  while size <= count do size = size * 2 end
  local partner, joined = letter .. (count - size / 2), letter .. count
  local stay, move, text = {}, {}, cell(cells, partner)
  for i = 1, #text, kIdRecordSize do
    local to = struct.unpack('<I4', text, i) % size == count and move or stay
    to[#to + 1] = string.sub(text, i, i + (kIdRecordSize - 1))
  end
  cells[partner], cells.put[partner] = table.concat(stay), true
  cells[joined], cells.put[joined] = table.concat(move), true
  head[letter .. 'cells'] = count + 1
end

-- Replaces the record of its id, or adds it. In head: the numbers of records and of
-- cells of each letter. If there are many records, those of ids that are not known at `at` leave the
-- cell; if they are few, there is one more cell.
local function put_record(cells, letter, head, one, at, remember)
  local count = head[letter .. 'cells']
  local name = cell_of(letter, one, count)
  local text = cell(cells, name)
  local found = text ~= '' and find_id(text, string.sub(one, 1, kHoldIdSize))
  cells.put[name] = true
  if found then
    cells[name] = string.sub(text, 1, found - 1) .. one .. string.sub(text, found + kIdRecordSize)
    return
  end
  text = text .. one
  head[letter] = head[letter] + 1
  cells[name] = text
  if head[letter] <= count * kCellRecords then return end
  if letter == 'e' then
    local known = known_records(text, at, remember)
    local gone = #text - #known
    cells[name], head.e = known, head.e - gone / kIdRecordSize
    if gone * 4 >= #text then return end
  end
  split(cells, letter, head)
end

-- In counted: the number in head that the record is part of.
local function take_out(cells, letter, head, id, counted)
  local name = cell_of(letter, id, head[letter .. 'cells'])
  local text = cell(cells, name)
  local found = find_id(text, id)
  cells[name] = string.sub(text, 1, found - 1) .. string.sub(text, found + kIdRecordSize)
  cells.put[name] = true
  head[counted] = head[counted] - 1
end

-- Reads all cells of open ids. Returns the ends and the units of the holds that end after `at`, and
-- the first of the ends; then the ends and the units of the others, and some of their ids.
local function scan_holds(cells, count, at)
  local names = {}
  for i = 0, count - 1 do
    if not cells['o' .. i] then names[#names + 1] = 'o' .. i end
  end
  for from = 1, cells.is_new and 0 or #names, kMostArguments do
    local last = from + kMostArguments - 1
    if last > #names then last = #names end
    for i, text in ipairs(redis.call('HMGET', cells.key, unpack(names, from, last))) do
      cells[names[from + i - 1]] = checked(cells, text or '')
    end
  end
  local ends, units, first, n = {}, {}, 0, 0
  local past_ends, past_units, past_ids, past = {}, {}, {}, 0
  for i = 0, count - 1 do
    local text = cell(cells, 'o' .. i)
    for j = 1, #text, kIdRecordSize do
      local amount, high, final = struct.unpack(kIdNumbers, text, j + kHoldIdSize)
      amount = amount + high % 32 * kAmountHigh
      if final > at then
        n = n + 1
        ends[n], units[n] = final, amount
        if first == 0 or final < first then first = final end
      else
        past = past + 1
        past_ends[past], past_units[past] = final, amount
        if past <= kMostMoved then past_ids[past] = string.sub(text, j, j + (kHoldIdSize - 1)) end
        with_ledger 'ledger_id'
      end
    end
  end
  return ends, units, first, past_ends, past_units, past_ids
end

-- Returns the first ends until which holds of `all` units have ended, of `held` units, and `count`
-- holds; 0 for those that are not needed. Mostly a few holds are enough, so it sorts them late.
local function ends_of(ends, units, all, held, count)
  local by_all, by_held, by_count, sum, order = 0, 0, 0, 0, nil
  for n = 1, #ends do
    local least
    if n > 16 then
      if not order then
        order = {}
        for i = 1, #ends do
          if ends[i] < math.huge then order[#order + 1] = i end
        end
        table.sort(order, function(a, b) return ends[a] < ends[b] end)
      end
      least = order[n - 16]
    else
      least = 1
      for i = 2, #ends do
        if ends[i] < ends[least] then least = i end
      end
    end
    local final = ends[least]
    sum = sum + units[least]
    if not order then ends[least] = math.huge end
    if by_all == 0 and all > 0 and sum >= all then by_all = final end
    if by_held == 0 and held > 0 and sum >= held then by_held = final end
    if n == count then by_count = final end
    if (all == 0 or by_all > 0) and (held == 0 or by_held > 0) and n >= count then break end
  end
  return by_all, by_held, by_count
end

-- How holds were counted that have ended, and whose records are still in the cells of open ids.
local function past_counts(cells)
  if not cells.p then cells.p = cells.has_past and redis.call('HGET', cells.key, 'p') or '' end
  return cells.p
end

-- Returns whether such a hold was released; if the list does not say it, `releases`.
local function was_released(cells, ends, releases)
  local counts = past_counts(cells)
  for i = 1, #counts - (kPastCountSize - 1), kPastCountSize do
    local until_end, released = struct.unpack(kPastCount, counts, i)
    if ends <= until_end then return released == 1 end
  end
  return releases
end

-- Notes that those that have ended until `at` are counted.
local function put_past_counts(cells, at, releases)
  local counts, size = past_counts(cells), kPastCountSize
  local by = releases and 1 or 0
  if #counts >= size and string.byte(counts, #counts) == by then
    counts = string.sub(counts, 1, #counts - size)
  end
  cells.p = string.sub(counts .. struct.pack(kPastCount, at, by), -size * kMostPastCounts)
  cells.put.p = true
end

part 'budget_gives_back'
-- Undoes what a call has done, if its id is still as the call has left it. In: cost, the units that
-- it has spent; the further numbers are at the end of the argument.
local was_kind, was_amount, was_rest, unspent, made_at =
  struct.unpack(kBudgetUndo, arg, #arg - (kBudgetUndoSize - 1))
local left_as = (does == kHolds or does == kExtends) and kOpen or
  does == kCancels and kCancelled or kSettled
if does == kWithoutId then
  if cost == 0 or made_at < opens then return reply(), true end
elseif kind ~= left_as then
  return reply(), true
end
if made_at >= opens then
  spent = cost < spent and spent - cost or 0
  spent = unspent < kMaxAmount - spent and spent + unspent or kMaxAmount
end
if does ~= kWithoutId then
  if kind == kOpen then held = held - amount end
  local letter = kind == kOpen and 'o' or 'e'
  take_out(cells, letter, head, id, letter)
  if was_kind == kOpen and was_rest <= at then
    -- It has ended meanwhile.
    was_kind = releases and kReleased or kCharged
    if not releases and was_rest >= opens then
      spent = was_amount < kMaxAmount - spent and spent + was_amount or kMaxAmount
    end
    local until_known = known_after(was_rest, remember)
    if until_known > known then known = until_known end
  elseif was_kind == kOpen then
    held = held + was_amount
    if head.o == 0 or was_rest < first then first = was_rest end
    if was_rest > latest then latest = was_rest end
  end
  if was_kind ~= 0 then
    put_record(cells, was_kind == kOpen and 'o' or 'e', head,
               record(id, was_kind, was_amount, was_rest), at, remember)
  end
  if head.o == 0 then latest, first = 0, 0 end
  with_ledger 'ledger_undo'
end

part 'budget'
-- budget: see core/budget.h. What a call does with an id is in its argument.
local function budget(key, arg, now, verb)
  local cost, high, capacity, remember, most, does, releases, ttl, period, id =
    struct.unpack(kBudgetCall, arg, 2)
  cost, releases = cost + high * kAmountHigh, releases == 1
  -- past: holds whose ends have counted, but whose records are still in the cells of open ids.
  local head, cells = {e = 0, o = 0, past = 0, ecells = 1, ocells = 1}, {key = key, put = {}}
  local at, last, spent, held, latest, first, known, old_forgotten =
    now, now, 0, 0, 0, 0, 0, kNeverForgotten
  local state = redis.pcall('HGET', key, 'h')
  if state then
    if type(state) ~= 'string' or #state ~= kBudgetHeadSize then return nil, state end
    local kind, changed, used, kept, final, least, until_known, forgotten, o, past, e, ocells,
          ecells = struct.unpack(kBudgetHead, state)
    local own_kind = kBudgetKind
    include 'check_header'
    if used > kMaxAmount or kept > kMaxAmount or ocells < 1 or ecells < 1 or
        (ocells - 1) * kCellRecords > kMostHolds then
      return nil, state
    end
    if known_until > now then
      last, spent, held, latest, first, known, old_forgotten =
        changed, used, kept, final, least, until_known, forgotten
      head.o, head.past, head.e, head.ocells, head.ecells = o, past, e, ocells, ecells
      if last > now then at = last end
    else
      cells.is_new, cells.is_old = true, true
    end
  elseif redis.call('EXISTS', key) == 1 then
    return nil, ''
  else
    cells.is_new = true
  end

  -- The bounds of the windows.
  local opens, closes, later, last_close
  if period > 0 then
    opens = at - at % period
    closes = opens + period
  else
    local number, w0, w1, w2, w3, w4 = struct.unpack(kBudgetWindows, arg, 2 + kBudgetCallSize)
    if at >= w1 then w0, w1, w2, w3 = w1, w2, w3, w4 end
    if at < w0 or at >= w1 then
      return nil, {ok = string.format('WINDOW %d %.0f %.0f', number, at, now)}
    end
    opens, closes, later, last_close = w0, w1, w2, w3
  end
  local function close_of(instant)
    if period > 0 then return instant - instant % period + period end
    if instant < closes then return closes end
    return instant < later and later or last_close
  end

  with_ledger 'ledger_before'
  cells.has_past = head.past > 0
  if last < opens then spent = 0 end
  local past_ends, past_units, past_ids
  if head.o > 0 and first <= at then
    local live, _
    live, _, first, past_ends, past_units, past_ids = scan_holds(cells, head.ocells, at)
    if #live + #past_ends ~= head.o + head.past then return nil, state end
    local last_end = 0
    for i, ends in ipairs(past_ends) do
      if ends > last then
        local amount = past_units[i]
        held = held - amount
        if not releases and ends >= opens then
          spent = spent + amount < kMaxAmount and spent + amount or kMaxAmount
        end
        if ends > last_end then last_end = ends end
      end
    end
    local until_known = last_end > 0 and known_after(last_end, remember) or 0
    if until_known > known then known = until_known end
    head.o, head.past = #live, #past_ends
    if held < 0 then return nil, state end
  end
  if head.o == 0 then latest, first = 0, 0 end

  -- Moves the record of a hold that has ended to the ended ids.
  local function move(its_id, units, ends)
    take_out(cells, 'o', head, its_id, 'past')
    local kind = was_released(cells, ends, releases) and kReleased or kCharged
    put_record(cells, 'e', head, record(its_id, kind, units, ends), at, remember)
  end

  -- The record of the id.
  local kind, amount, rest = 0, 0, 0
  if does ~= kWithoutId then
    local found
    if head.o > 0 or head.past > 0 then
      local text = cell(cells, cell_of('o', id, head.ocells))
      found = find_id(text, id)
      if found then kind, amount, rest = record_at(text, found) end
      if found and rest <= at then
        if head.past < 1 then return nil, state end
        found = nil
        move(id, amount, rest)
        kind, amount, rest = 0, 0, 0
      end
    end
    if not found and head.e > 0 then
      local text = cell(cells, cell_of('e', id, head.ecells))
      found = find_id(text, id)
      if found then
        kind, amount, rest = record_at(text, found)
        local ends = kind == kCharged or kind == kReleased
        local until_known = ends and known_after(rest, remember) or rest % 4294967296
        if until_known * kForgottenUnit <= at then kind, amount, rest = 0, 0, 0 end
      end
    end
  end
  local check = (kind == kSettled or kind == kCancelled) and
    (rest - rest % 4294967296) / 4294967296 % 65536
  local has_cost = kind == 0
  if check then
    has_cost = check == kAnyCost and does ~= kHolds or check == cost % kCheckModulus
  elseif kind ~= 0 then
    has_cost = amount == cost
  end

  local by_all, by_held, by_count = 0, 0, 0
  local was_spent, was_held, was_latest, was_open = spent, held, latest, head.o
  local function reply()
    if cells.is_new and not cells.is_old then return false end
    return struct.pack(kBudgetReply, at, was_spent, was_held, was_latest, was_open, old_forgotten,
                       kind, amount, rest, by_all, by_held, by_count)
  end
  local left = capacity - spent - held
  if left < 0 then left = 0 end
  -- The cost with its high byte has the size of an instant.
  if verb == kTakeAtMostOfAll then return false, left, kInstant end
  if verb == kTakeAtMost and left < cost then cost = left < 1 and 1 or left end

  -- Decides. Out: what happens to the id, if something does.
  local opens_hold, settles, cancels, extends, until_known, is_over
  if verb == kReset then
    with_ledger 'ledger_reset'
    return reply(), true
  elseif verb == kRefund then
    if cost == 0 or spent == 0 then return reply(), true end
    spent = cost < spent and spent - cost or 0
  elseif verb == kGiveBack then
    include 'budget_gives_back'
  elseif does == kExtends then
    if kind ~= kOpen then return reply(), false end
    extends = true
  elseif does == kSettles or does == kCancels or does == kTakesOnce and kind == kOpen and has_cost then
    local actual = does == kCancels and 0 or cost < kMaxAmount and cost or kMaxAmount
    if kind == kSettled then return reply(), amount == actual end
    if does == kCancels and kind == kCancelled then return reply(), true end
    settles, cancels = true, does == kCancels
    if kind == kCharged then
      if rest >= opens then
        spent = amount < spent and spent - amount or 0
      else
        actual = amount < actual and actual - amount or 0
      end
    end
    is_over = not cancels and cost > kMaxAmount or actual > kMaxAmount - spent
    spent = actual < kMaxAmount - spent and spent + actual or kMaxAmount
    until_known = known_after(kind == kOpen and rest or at, remember)
  elseif verb == kCharge then
    if cost == 0 or spent == kMaxAmount then return reply(), true end
    spent = cost < kMaxAmount - spent and spent + cost or kMaxAmount
  else
    if kind ~= 0 then
      local is_same = has_cost and (does == kHolds or kind == kSettled and amount == cost)
      return reply(), is_same or nil
    end
    -- Exact, unlike a sum with the cost.
    local room = capacity - cost
    local fits = cost == 0 or room >= 0 and spent + held <= room
    local is_full = does == kHolds and head.o >= most
    if not fits or is_full then
      if room >= 0 then
        -- Where an expired hold is spent, only the window in which it ends matters.
        local all = not fits and releases and spent <= room and held - (room - spent) or 0
        local of_held = not fits and held > room and held - room or 0
        if not releases and latest < closes and of_held > 0 then by_held, of_held = latest, 0 end
        local count = is_full and head.o - most + 1 or 0
        if all > 0 or of_held > 0 or count > 0 then
          local ends, units = scan_holds(cells, head.ocells, at)
          local known_end = by_held
          by_all, by_held, by_count = ends_of(ends, units, all, of_held, count)
          if known_end > 0 then by_held = known_end end
        end
      end
      local may_end = period ~= kNeverEnds or releases and spent <= room or
        old_forgotten < kNeverForgotten
      if fits or room < 0 or not may_end then return reply() end
      return reply(), false
    end
    if does == kHolds then
      opens_hold = true
    elseif does == kTakesOnce then
      spent, settles, until_known = spent + cost, true, known_after(at, remember)
    elseif cost == 0 then
      return reply(), true
    else
      spent = spent + cost
    end
  end

  -- Changes.
  if opens_hold or extends then
    local ends, units = at + ttl, extends and amount or cost
    if opens_hold then held = held + cost end
    put_record(cells, 'o', head, record(id, kOpen, units, ends), at, remember)
    if head.o == 1 or ends < first then first = ends end
    if ends > latest then latest = ends end
  elseif settles then
    if kind == kOpen then
      held = held - amount
      if held < 0 then return nil, state end
      take_out(cells, 'o', head, id, 'o')
      if head.o == 0 then latest, first = 0, 0 end
    end
    local of = does == kTakesOnce and kind == 0 and cost % kCheckModulus or
      check or kind == 0 and kAnyCost or amount % kCheckModulus
    local units = cancels and 0 or cost < kMaxAmount and cost or kMaxAmount
    -- nil: it was admitted, as a take.
    if is_over == false then is_over = spent + held > capacity end
    local was_over = is_over and kWasOver or 0
    put_record(cells, 'e', head, record(id, cancels and kCancelled or kSettled, units,
                                        was_over + of * 4294967296 + until_known), at, remember)
    if until_known > known then known = until_known end
  end
  -- Some of the records of ended holds move, so that no call takes long: with each hold those of some
  -- cell, whatever ids clients choose; and those that all cells have shown.
  if past_ids or opens_hold and head.past > 0 then
    local left_past = head.past - kMostMoved
    local text = ''
    if opens_hold then
      text = cell(cells, 'o' .. (at + struct.unpack('<I4', id, 5)) % head.ocells)
    end
    for i = 1, #text, kIdRecordSize do
      local _, units, ends = record_at(text, i)
      if ends <= at then move(string.sub(text, i, i + (kHoldIdSize - 1)), units, ends) end
    end
    for i, its_id in ipairs(past_ids or {}) do
      if head.past <= left_past then break end
      text = cell(cells, cell_of('o', its_id, head.ocells))
      if its_id ~= id and find_id(text, its_id) then move(its_id, past_units[i], past_ends[i]) end
    end
  end
  if past_ids and head.past > 0 then put_past_counts(cells, at, releases) end
  local full = at
  if head.o > 0 then
    full = (releases and latest or close_of(latest))
    if latest + remember > full then full = latest + remember end
  end
  if spent > 0 and closes > full then full = closes end
  with_ledger 'ledger_entries'
  include 'seal'
  if forgotten < known then forgotten, ends = known, known * kForgottenUnit end
  local fields = {'h', struct.pack(kBudgetHead, kBudgetKind, at, spent, held, latest, first, known,
                                   forgotten, head.o, head.past, head.e, head.ocells, head.ecells)}
  for name in pairs(cells.put) do
    fields[#fields + 1] = name
    fields[#fields + 1] = cells[name]
  end
  fields.is_old = cells.is_old
  return reply(), true, fields, ends - now, 'hash'
end
