#!/usr/bin/python3
"""Writes the windows of calendars as Python's zoneinfo knows them, for the library to compare with.

It shares nothing with the library except the system's time zones. The arguments are the first and
the last year of the windows. A line for each calendar says the number of its windows and a checksum
of all their starts; the lines after it are the days that do not have 24 hours.
"""
import calendar
import sys
from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

ZONES = ["UTC", "Asia/Shanghai", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe",
         "Pacific/Apia", "America/Sao_Paulo", "Asia/Kathmandu", "Africa/Casablanca"]
WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
UNITS = {"day": [""], "week": ["monday", "sunday"], "month": ["1", "15", "29", "30", "31"],
         "year": ["01-01", "04-06", "02-29"]}
DAY = timedelta(days=1)


def wall(instant, zone):
    """What clocks of the zone show."""
    return instant.astimezone(zone).replace(tzinfo=None)


def midnight(day, zone):
    """The first instant at which clocks of the zone show the day or a later one."""
    shown = datetime(day.year, day.month, day.day)
    instant = shown.replace(tzinfo=zone, fold=0).astimezone(timezone.utc)
    if wall(instant, zone) == shown:
        return instant
    # Clocks skip midnight. Look for the second of the skip.
    low, high = instant - 2 * DAY, instant + 2 * DAY
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
        if wall(middle, zone) < shown:
            low = middle
        else:
            high = middle
    return high


def first_days(unit, starts, first_year, last_year):
    day = date(first_year, 1, 1)
    while day.year <= last_year:
        length = calendar.monthrange(day.year, day.month)[1]
        if unit == "day":
            yield day
        elif unit == "week" and WEEKDAYS[day.weekday()] == starts:
            yield day
        elif unit == "month" and day.day == min(int(starts), length):
            yield day
        elif unit == "year" and day.month == int(starts[:2]):
            if day.day == min(int(starts[3:]), length):
                yield day
        day += DAY


def fnv(starts):
    checksum = 0xCBF29CE484222325
    for start in starts:
        for byte in str(start).encode() + b"\n":
            checksum = (checksum ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return checksum


def main(first_year, last_year):
    for name in ZONES:
        zone = ZoneInfo(name)
        midnights = {}
        for unit, all_starts in UNITS.items():
            for first in all_starts:
                starts = []
                for day in first_days(unit, first, first_year, last_year):
                    if day not in midnights:
                        midnights[day] = int(midnight(day, zone).timestamp())
                    if not starts or midnights[day] > starts[-1]:  # a skipped day has no window
                        starts.append(midnights[day])
                print(name, unit, first or "-", len(starts) - 1, f"{fnv(starts):016x}")
                for start, end in zip(starts, starts[1:]):
                    seconds = end - start
                    if unit == "day" and seconds != 86400:
                        print(f"  {start} {seconds / 3600:g}h")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
