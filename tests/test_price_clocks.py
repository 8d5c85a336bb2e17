"""Two clocks, by hand: every expected time is worked out in the comment beside it."""

import pytest

from torchtally.stalls.price import Clocks, Latencies, Loader, Task

PLAIN = Latencies(start_us=0.0, return_us=0.0, queue_depth=1024)


def kernel(device_us, host_us=1.0, waits=0, stream=0):
    return Task("kernel", host_us, device_us, 1, waits, stream)


def test_the_host_runs_ahead_and_the_device_is_busy_from_the_first_launch():
    clocks = Clocks(PLAIN)
    for _ in range(3):
        clocks.run(kernel(100.0))
    assert clocks.host_us == 3.0  # three launches of 1
    assert clocks.end_us() == 301.0  # first launched at 1, then back to back
    assert clocks.busy_us == 300.0


def test_a_wait_drains_the_queue_and_the_device_idles_until_the_host_has_launched_again():
    clocks = Clocks(PLAIN)
    clocks.run(kernel(100.0))  # runs 1..101
    clocks.run(kernel(0.0, waits=1))  # host waits until 101
    assert clocks.host_us == 101.0
    clocks.run(Task("python", 20.0))  # host only, until 121
    clocks.run(kernel(100.0))  # launched at 122
    (wait,) = clocks.waits
    assert (wait.start_us, wait.end_us) == (2.0, 101.0)
    assert wait.idle_us == 21.0  # 101..122: 20 of Python and 1 of launching
    assert clocks.end_us() == 222.0


def test_a_wait_costs_its_way_back_and_the_start_of_the_next_kernel_too():
    clocks = Clocks(Latencies(start_us=3.0, return_us=10.0))
    clocks.run(kernel(100.0, waits=1))  # launched at 1, runs 4..104, host back at 114
    assert clocks.host_us == 114.0
    clocks.run(kernel(50.0))  # launched at 115, starts at 118
    assert clocks.waits[0].idle_us == 14.0  # 104..118


def test_a_wait_for_an_earlier_moment_with_work_queued_behind_it_costs_no_idle_time():
    clocks = Clocks(PLAIN)
    clocks.run(kernel(100.0))  # 1..101
    event = clocks.end_us()
    clocks.run(kernel(100.0))  # 101..201
    clocks.wait_until(Task("event.synchronize", 0.0), event)  # host goes on at 101 while the device works until 201
    assert clocks.host_us == 101.0
    clocks.run(kernel(100.0))  # launched at 102, runs 201..301
    assert clocks.waits[0].idle_us == 0.0
    assert clocks.end_us() == 301.0


def test_of_two_waits_in_a_row_each_bears_the_idle_time_up_to_the_next_work():
    clocks = Clocks(PLAIN)
    clocks.run(kernel(100.0, waits=1))  # 1..101
    clocks.run(kernel(2.0, host_us=5.0, waits=1))  # launched at 106, 106..108
    clocks.run(kernel(100.0, host_us=7.0))  # launched at 115
    assert [w.idle_us for w in clocks.waits] == [5.0, 7.0]


def test_a_second_wait_without_work_between_shares_the_idle_time_with_the_first():
    clocks = Clocks(Latencies(start_us=0.0, return_us=10.0))
    clocks.run(kernel(100.0, waits=2))  # 1..101; back at 111, and again at 121
    clocks.run(kernel(100.0))  # launched at 122
    assert [w.idle_us for w in clocks.waits] == [10.0, 11.0]  # 101..111 and 111..122


def test_a_wait_for_an_empty_device_is_not_blamed_for_the_idle_time_before_it():
    clocks = Clocks(PLAIN)
    clocks.run(kernel(10.0))  # 1..11
    clocks.run(Task("python", 500.0))  # the host is slow: 501
    clocks.run(Task("wait", 0.0, waits=1))
    clocks.run(kernel(10.0))  # launched at 502
    assert clocks.waits[0].idle_us == 0.0  # it held nobody up


def test_gaps_between_small_kernels_after_a_wait_are_its_doing_too():
    clocks = Clocks(PLAIN)
    clocks.run(kernel(100.0, waits=1))  # 1..101: the host could have been 100 ahead
    for _ in range(5):
        clocks.run(kernel(2.0, host_us=10.0))  # launched at 111, 121, ...: before each the device idles 10, then 8
    clocks.run(kernel(500.0, host_us=10.0))  # launched at 161
    clocks.run(kernel(1.0, host_us=10.0))  # launched at 171, runs after the one before
    assert clocks.waits[0].idle_us == 10.0 + 5 * 8.0


def test_a_wait_is_blamed_for_no_more_than_the_host_stood_still():
    clocks = Clocks(PLAIN)
    clocks.run(kernel(30.0, waits=1))  # 1..31: held up for 30
    clocks.run(kernel(1.0, host_us=500.0))  # launched at 531: the device would have idled 470 without any wait
    assert clocks.waits[0].idle_us == 30.0


def test_a_full_queue_holds_the_host_until_its_oldest_launch_has_begun():
    clocks = Clocks(Latencies(start_us=0.0, return_us=0.0, queue_depth=2))
    for _ in range(4):
        clocks.run(kernel(100.0))
    # launched at 1 (starts at once: 1), at 2 and 3 (begin at 101 and 201); the fourth comes at 4 and finds two: free at 101
    assert clocks.host_us == 101.0
    assert clocks.blocked_us == 97.0
    assert clocks.end_us() == 401.0  # the device never idled
    assert not clocks.waits


def test_streams_run_side_by_side_and_synchronize_waits_for_all():
    clocks = Clocks(PLAIN)
    clocks.run(kernel(100.0, stream=0))  # 1..101
    clocks.run(kernel(300.0, stream=1))  # 2..302
    clocks.run(Task("read", 0.0, waits=1, stream=0))
    assert clocks.host_us == 101.0
    clocks.synchronize(Task("synchronize", 0.0))
    assert clocks.host_us == 302.0


def test_launches_of_one_task_share_its_time():
    clocks = Clocks(PLAIN, keep=True)
    clocks.run(Task("foreach", 4.0, 90.0, launches=3))
    assert [(s.start_us, s.end_us) for s in clocks.device] == [(4.0, 34.0), (34.0, 64.0), (64.0, 94.0)]


def test_a_loop_slower_than_its_loader_never_waits_for_it():
    clocks, loader = Clocks(PLAIN), Loader(batch_us=50.0, fetch_us=2.0)
    for _ in range(5):
        clocks.fetch(loader)
        clocks.run(Task("step", 100.0))
        clocks.step()
    assert clocks.starved_us == 50.0  # the very first batch
    assert clocks.steps == [152.0, 254.0, 356.0, 458.0, 560.0]


def test_a_loop_bound_by_its_loader_runs_at_the_loaders_pace_whatever_waits():
    def run(waits):
        clocks, loader = Clocks(PLAIN), Loader(batch_us=200.0)
        for _ in range(10):
            clocks.fetch(loader)
            clocks.run(kernel(100.0, waits=waits))
            clocks.step()
        return clocks.steps[-1] - clocks.steps[-2]

    assert run(0) == run(1) == 200.0


def test_a_loader_stops_when_its_places_are_full():
    loader = Loader(batch_us=10.0, prefetch=2)
    assert loader.claim(1000.0) == 1000.0  # ready at 10
    assert loader.claim(1000.0) == 1000.0  # ready at 20
    assert loader.claim(1000.0) == 1010.0  # could only be begun when the first was claimed, at 1000


def test_steady_state_of_a_device_bound_loop_is_the_device_time_without_waits_and_more_with():
    def per_step(waits):
        clocks = Clocks(PLAIN)
        for _ in range(50):
            for _ in range(10):
                clocks.run(kernel(100.0, host_us=10.0))
            clocks.run(Task("read", 10.0, 2.0, 1, waits))
            clocks.run(Task("python", 40.0))
            clocks.step()
        return (clocks.done[-1] - clocks.done[9]) / 40

    assert per_step(1) == pytest.approx(1002.0 + 50.0)  # after each wait 40 of Python and 10 of launching
    assert per_step(0) == pytest.approx(1002.0)
