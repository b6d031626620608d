package process

// TakeNoMore seals a file in memory.
var TakeNoMore = takeNoMore
