package main

func main() {} // of a guest it never runs
