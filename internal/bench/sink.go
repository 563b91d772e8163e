package main

// sinkConcurrency is how many deliveries to the sink may be underway at once.
const sinkConcurrency = 32
