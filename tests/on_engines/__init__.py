"""What only servers can show: queues that deliver again and give up, processes that die, schedules that come due."""
